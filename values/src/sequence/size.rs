//! What a leaf of a tree may carry, and what its parts cost.

/// Bytes that a leaf carries at most, references of long elements included: with its header it is a node of 1 KiB.
pub const LEAF_MAX: usize = 1016;
/// Bytes of a node before its payload, and in that before its references: only hints of what is to be looked at depend on them.
pub const NODE_HEAD: usize = 8;
pub const REFS_HEAD: usize = 8;

/// What references cost a leaf, in bytes.
pub fn refs_size(refs: usize) -> usize {
    if refs == 0 { 0 } else { 8 + refs * 8 }
}
