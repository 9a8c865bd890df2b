//! The switches with which test suites hold a process still (DEBUG).
use std::sync::atomic::{AtomicBool, Ordering};

static MAINTENANCE_REST: AtomicBool = AtomicBool::new(false);
static SCRIPTS_MAY_ALL: AtomicBool = AtomicBool::new(false);

/// Whether this process runs no maintenance for now (`DEBUG PAUSE-CRON`).
pub fn maintenance_rests() -> bool {
    MAINTENANCE_REST.load(Ordering::Relaxed)
}

/// Stops the maintenance of this process, or lets it go on.
pub fn let_maintenance_rest(rests: bool) {
    MAINTENANCE_REST.store(rests, Ordering::Relaxed);
}

/// Whether scripts may call what scripts may not call (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
pub fn scripts_may_call_all() -> bool {
    SCRIPTS_MAY_ALL.load(Ordering::Relaxed)
}

/// Lets scripts call every command, or forbids it.
pub fn let_scripts_call_all(may: bool) {
    SCRIPTS_MAY_ALL.store(may, Ordering::Relaxed);
}
