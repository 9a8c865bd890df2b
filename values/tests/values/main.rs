//! Values of all types against simple models of them.
mod hash;
mod sequence;
mod set;
mod stream;
mod string;
