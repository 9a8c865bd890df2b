//! HELP of the containers: their rows, as Redis lays them out.
use polder_calls::call::Outcome;
use polder_calls::command::Run;

use crate::lookup::{find_original, subcommands};
use crate::row::SessionCall;

/// HELP of every container: its rows, as Redis lays them out.
pub fn help(call: &mut SessionCall<'_>) -> Outcome {
    let container = find_original(call.command.container().as_bytes()).expect("a subcommand has a container");
    let mut lines =
        vec![format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", container.name)];
    if !matches!(container.run, Run::Container) {
        lines.extend(["(no subcommand)".into(), format!("    {}", container.about)]);
    }
    for command in subcommands(container).filter(|command| command.subcommand() != Some("HELP")) {
        lines.push(
            format!("{} {}", command.subcommand().unwrap_or_default(), command.grammar).trim_end().into(),
        );
        lines.push(format!("    {}", command.about));
    }
    lines.extend(["HELP".into(), "    Prints this help.".into()]);
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.status(line));
    Ok(())
}
