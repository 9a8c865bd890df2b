//! MONITOR begins to show a client every call: `polder_runtime::monitor` does so as calls are run.
use polder_calls::call::Outcome;
use polder_calls::command::{ADMIN, LOADING, NOSCRIPT, STALE};
use polder_hub::monitor as monitors;
use polder_runtime::row::{Row, SessionCall, session};

/// The family's rows.
pub const COMMANDS: &[Row] = &[session("MONITOR", "", monitor)
    .with(ADMIN | NOSCRIPT | LOADING | STALE)
    .about("Listens for all requests received by the server in real-time.")];

fn monitor(call: &mut SessionCall<'_>) -> Outcome {
    if call.session.caller.atomic {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    polder_hub::attend(call.table)?;
    if call.session.identity.id == 0 {
        call.session.identity.id = polder_hub::next_client(call.table);
    }
    call.session.listening.monitors = true;
    monitors::note_monitor(call.table, call.session.identity.id, true);
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use polder_calls::call::Caller;
    use polder_engine::EmbeddedHost;
    use polder_runtime::Session;
    use polder_runtime::monitor::line;

    #[test]
    fn a_line_shows_arguments_in_quotes_and_no_passwords() {
        polder_engine::register();
        let (session, host) = (
            Session { caller: Caller { db: 3, ..Caller::default() }, ..Session::default() },
            EmbeddedHost::default(),
        );
        let shown = |name: &[u8], args: &[&[u8]]| {
            let line = line(&session, &host, polder_runtime::find(name).expect("a command"), args);
            String::from_utf8(line).expect("text").split_once("] ").expect("a head").1.to_owned()
        };
        assert_eq!(shown(b"GET", &[b"get", b"a b\x01\n\"\\\xff"]), r#""get" "a b\x01\n\"\\\xff""#);
        assert_eq!(shown(b"AUTH", &[b"auth", b"secret"]), r#""auth" "(redacted)""#);
        assert_eq!(
            shown(b"HELLO", &[b"hello", b"3", b"auth", b"u", b"p"]),
            r#""hello" "3" "auth" "(redacted)" "(redacted)""#
        );
    }
}
