//! The process around the callers of a memory, where that is no server.
use polder_persist::saves::Saves;
use polder_runtime::Host;
use polder_runtime::configuration::Configuration;
use polder_runtime::recorder::Recorder;
use polder_runtime::saves::{SaveControl, SaveSignals};
use polder_runtime::scripting::Scripting;

/// A process without clients or listeners, such as an embedder: one for each segment that it has attached.
#[derive(Default)]
pub struct EmbeddedHost {
    settings: Configuration,
    recorder: Recorder,
    saves: Saves,
    scripting: Option<Scripting>,
}

impl EmbeddedHost {
    /// A process with settings of its own.
    pub fn with(settings: Configuration) -> EmbeddedHost {
        EmbeddedHost { settings, ..EmbeddedHost::default() }
    }

    /// Its saves.
    pub fn saves(&self) -> &Saves {
        &self.saves
    }

    /// The same, with something that runs scripts.
    pub fn scripted(self, scripting: Scripting) -> EmbeddedHost {
        EmbeddedHost { scripting: Some(scripting), ..self }
    }
}

impl Host for EmbeddedHost {
    fn settings(&self) -> &Configuration {
        &self.settings
    }
    fn recorder(&self) -> &Recorder {
        &self.recorder
    }
    fn save_signals(&self) -> &SaveSignals {
        self.saves.signals()
    }
    fn saves(&self) -> &dyn SaveControl {
        &self.saves
    }
    fn scripting(&self) -> Option<&Scripting> {
        self.scripting.as_ref()
    }
}
