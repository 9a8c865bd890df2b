//! What happens while another thread holds something. The tests of `table`, which stands below this
//! crate, name this file by its path.
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Runs `work` while another thread is inside `hold`, once that has called its argument. Returns
/// how long the work took.
///
/// # Panics
/// When `hold` ends without having called it.
pub fn while_held(hold: impl FnOnce(&dyn Fn()) + Send, work: impl FnOnce()) -> Duration {
    let (held, is_held) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            hold(&|| {
                held.send(()).expect("the test waits");
                // An error says as well that the work is done, or has panicked.
                let _ = is_done.recv();
            });
        });
        is_held.recv().expect("it is held");
        // In the same thread, so that a panic lets go, too.
        let done = done;
        let begun = Instant::now();
        work();
        let took = begun.elapsed();
        drop(done);
        took
    })
}
