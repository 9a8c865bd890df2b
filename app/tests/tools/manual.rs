//! Completion scripts and manual pages.
use crate::canned::run_polder;

#[test]
fn shells_and_man_know_every_subcommand() {
    let help = String::from_utf8(run_polder(&["--help"], b"").stdout).unwrap();
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(names.contains(&"cli") && names.contains(&"serve"), "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(run_polder(&["completions", shell], b"").stdout).unwrap();
        assert!(names.iter().all(|name| script.contains(name)), "{shell}");
        // Settings with their values, too.
        assert!(
            ["maxmemory-policy", "allkeys-lru", "unixsocket"].iter().all(|word| script.contains(word)),
            "{shell}"
        );
    }
    let folder = std::env::temp_dir().join(format!("polder-man-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let made = run_polder(&["man", folder.to_str().unwrap()], b"");
    let pages: Vec<bool> =
        names.iter().map(|name| folder.join(format!("polder-{name}.1")).exists()).collect();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(made.status == Some(0) && pages.iter().all(|there| *there), "{names:?} {pages:?}");
}
