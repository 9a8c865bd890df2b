//! Why a native refuses a call; the script sees the text as its error.
/// The text of the error, without the place of the call.
pub struct Complaint(pub String);

impl From<&str> for Complaint {
    fn from(text: &str) -> Complaint {
        Complaint(text.into())
    }
}

impl From<String> for Complaint {
    fn from(text: String) -> Complaint {
        Complaint(text)
    }
}

impl From<mlua::Error> for Complaint {
    fn from(error: mlua::Error) -> Complaint {
        match error {
            mlua::Error::MemoryError(_) => "not enough memory".into(),
            other => Complaint(other.to_string()),
        }
    }
}
