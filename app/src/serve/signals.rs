//! Signals, from before the first of them may come: what Redis ignores is ignored here too, and told in the log.
//!
//! | signal | what it does |
//! |---|---|
//! | SIGTERM, SIGINT | saves where save points are set, and stops; a second one ends the process at once |
//! | SIGHUP | reads certificates and keys again |
//! | SIGUSR1, SIGUSR2 | nothing: one line in the log. A log file that was moved away is made anew without any signal |
//! | SIGPIPE, SIGXFSZ | nothing: the write that caused it fails |
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::signal_name;

type Stop = Box<dyn Fn() + Send + Sync>;
type Reload = Box<dyn Fn() + Send + Sync>;

/// A thread that waits for signals until this is closed.
pub struct Attention {
    handle: Handle,
    thread: JoinHandle<()>,
    stop: Arc<OnceLock<Stop>>,
    reload: Arc<OnceLock<Reload>>,
}

impl Attention {
    /// Begins to wait for signals. Until [`Attention::stops`] is called, one that asks for the end ends the process at once.
    ///
    /// # Errors
    /// One line.
    pub fn begin() -> Result<Attention, String> {
        let failed = |error: std::io::Error| format!("cannot wait for signals: {error}");
        let mut signals =
            Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ]).map_err(failed)?;
        let stop: Arc<OnceLock<Stop>> = Arc::default();
        let reload: Arc<OnceLock<Reload>> = Arc::default();
        let (handle, own, own_reload) = (signals.handle(), stop.clone(), reload.clone());
        let wait = move || {
            let mut stops = 0;
            for signal in signals.forever() {
                let name = signal_name(signal).unwrap_or("a signal");
                match signal {
                    SIGTERM | SIGINT => {
                        obey(name, stops > 0, signal == SIGINT, &own);
                        stops += 1;
                    }
                    SIGHUP => match own_reload.get() {
                        Some(reload) => reload(),
                        None => tracing::info!("SIGHUP is ignored before clients are served"),
                    },
                    _ => tracing::info!("{name} is ignored"),
                }
            }
        };
        let thread = std::thread::Builder::new().name("polder-signals".into()).spawn(wait).map_err(failed)?;
        Ok(Attention { handle, thread, stop, reload })
    }

    /// What ends the server from now on.
    pub fn stops(&self, stop: impl Fn() + Send + Sync + 'static) {
        // It is said once.
        let _ = self.stop.set(Box::new(stop));
    }

    /// What SIGHUP does from now on.
    pub fn reloads(&self, reload: impl Fn() + Send + Sync + 'static) {
        // It is said once.
        let _ = self.reload.set(Box::new(reload));
    }

    /// Ends the thread; returns whether it had gone well.
    pub fn end(self) -> bool {
        self.handle.close();
        self.thread.join().is_ok()
    }
}

/// The end was asked for. Ctrl-C while the server stops already means that it shall not finish; SIGTERM is often sent twice by one stop (to a
/// process, then to its group), so that it means no more the second time than the first. So in Redis.
fn obey(name: &str, is_stopping: bool, is_interrupt: bool, stop: &OnceLock<Stop>) {
    match stop.get() {
        _ if is_stopping && is_interrupt => {
            tracing::warn!("{name} while the server stops: ending at once");
            std::process::exit(1);
        }
        _ if is_stopping => tracing::info!("{name}: the server stops already; SIGINT ends it at once"),
        Some(stop) => {
            tracing::info!("{name}: stopping");
            stop();
        }
        None => {
            tracing::info!("{name}: ending before clients were served");
            std::process::exit(0);
        }
    }
}
