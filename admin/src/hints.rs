//! What may still be typed: a command's grammar against the words that stand there already.
//!
//! The grammars are those of `polder_calls::grammar`, whose compiler has checked their brackets; here they become a
//! tree, because a hint has to forget `[EX seconds|PX milliseconds]` once EX was typed, wherever it was typed.
//!
//! ```text
//! SET key value [NX|XX] [GET] [EX seconds|...|KEEPTTL]
//! typed: "mykey 1 EX"      hint: "seconds [NX|XX] [GET]"
//! ```
//! Options that stand side by side may come in any order; a group that ends in `...` may come again and again.

/// A piece of a grammar.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part<'g> {
    /// A placeholder, or a literal in upper case.
    Word(&'g str),
    /// `[a|b]`, and whether it repeats.
    Optional(Vec<Sequence<'g>>, bool),
    /// `<a|b>`
    Choice(Vec<Sequence<'g>>),
}

type Sequence<'g> = Vec<Part<'g>>;

/// What may follow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rest<'g> {
    /// As the hint shows it.
    pub pieces: Vec<String>,
    /// The literals that the next word may be.
    pub literals: Vec<&'g str>,
}

/// What became of a sequence that met the words.
enum Met<'g> {
    Whole,
    Partly(Rest<'g>),
    Not,
}

/// What may follow `args`; `None` when they do not fit `grammar`.
pub fn rest<'g>(grammar: &'g str, args: &[&str]) -> Option<Rest<'g>> {
    let mut tokens = tokens(grammar);
    let (mut choices, _) = sequences(&mut tokens.drain(..));
    let mut args = args;
    match meet(&choices.pop()?, &mut args) {
        Met::Whole if args.is_empty() => Some(Rest::default()),
        Met::Partly(rest) => Some(rest),
        _ => None,
    }
}

/// Every literal of a grammar.
pub fn literals(grammar: &str) -> Vec<&str> {
    tokens(grammar).into_iter().filter(|token| is_literal(token)).collect()
}

fn is_literal(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Brackets, bars and words.
fn tokens(grammar: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for word in grammar.split_whitespace() {
        let mut start = 0;
        for (at, mark) in word.match_indices(['[', ']', '<', '>', '|']) {
            tokens.extend((at > start).then(|| &word[start..at]));
            tokens.push(mark);
            start = at + 1;
        }
        tokens.extend((word.len() > start).then(|| &word[start..]));
    }
    tokens
}

/// The alternatives up to the closing bracket or the end, and whether they end in dots.
fn sequences<'g>(tokens: &mut impl Iterator<Item = &'g str>) -> (Vec<Sequence<'g>>, bool) {
    let mut choices = vec![Vec::new()];
    let mut repeats = false;
    while let Some(token) = tokens.next() {
        let part = match token {
            "]" | ">" => break,
            "|" => {
                choices.push(Vec::new());
                continue;
            }
            "..." => {
                repeats = true;
                continue;
            }
            "[" => {
                let (inner, repeats) = sequences(tokens);
                Part::Optional(inner, repeats)
            }
            "<" => Part::Choice(sequences(tokens).0),
            word => Part::Word(word),
        };
        choices.last_mut().expect("there is always one").push(part);
    }
    (choices, repeats)
}

/// Takes from `args` what `parts` can take.
fn meet<'g>(parts: &[Part<'g>], args: &mut &[&str]) -> Met<'g> {
    let mut at = 0;
    while at < parts.len() {
        let met = match &parts[at] {
            Part::Optional(..) => {
                let run = parts[at..].iter().take_while(|part| matches!(part, Part::Optional(..))).count();
                let (group, behind) = (&parts[at..at + run], &parts[at + run..]);
                at += run;
                match meet_any_order(group, behind, args) {
                    Met::Whole => continue,
                    met => return met,
                }
            }
            _ if args.is_empty() => return Met::Partly(open(&parts[at..])),
            Part::Word(word) if is_literal(word) && !word.eq_ignore_ascii_case(args[0]) => return Met::Not,
            Part::Word(_) => {
                *args = &args[1..];
                Met::Whole
            }
            Part::Choice(choices) => match fitting(choices, args[0]) {
                Some(choice) => meet(choice, args),
                None => return Met::Not,
            },
        };
        at += 1;
        match met {
            Met::Whole => {}
            Met::Partly(rest) => return Met::Partly(followed(rest, &parts[at..])),
            Met::Not => return Met::Not,
        }
    }
    Met::Whole
}

/// Options side by side, in any order.
fn meet_any_order<'g>(group: &[Part<'g>], behind: &[Part<'g>], args: &mut &[&str]) -> Met<'g> {
    let mut unused: Vec<Part<'g>> = group.to_vec();
    loop {
        let Some(next) = args.first() else {
            unused.extend_from_slice(behind);
            return if unused.is_empty() { Met::Whole } else { Met::Partly(open(&unused)) };
        };
        let fits = |part: &Part<'g>| match part {
            Part::Optional(choices, _) => fitting(choices, next).map(|choice| is_starter(choice, next)),
            _ => None,
        };
        // A literal wins over a placeholder, which would take any word.
        let exact = unused.iter().position(|part| fits(part) == Some(true));
        let Some(index) = exact.or_else(|| unused.iter().position(|part| fits(part).is_some())) else {
            return Met::Whole;
        };
        let Part::Optional(choices, repeats) = unused[index].clone() else { return Met::Not };
        if !repeats {
            unused.remove(index);
        }
        let Some(choice) = fitting(&choices, next) else { return Met::Not };
        match meet(choice, args) {
            Met::Whole => {}
            Met::Partly(rest) => {
                unused.extend_from_slice(behind);
                return Met::Partly(followed(rest, &unused));
            }
            Met::Not => return Met::Not,
        }
    }
}

/// The alternative that may begin with `word`: the one with this literal, else one that begins with
/// a placeholder.
fn fitting<'c, 'g>(choices: &'c [Sequence<'g>], word: &str) -> Option<&'c Sequence<'g>> {
    let exact = choices.iter().find(|choice| is_starter(choice, word));
    exact.or_else(|| {
        choices.iter().find(|choice| matches!(choice.first(), Some(Part::Word(first)) if !is_literal(first)))
    })
}

/// Whether a sequence begins with `word` as a literal.
fn is_starter(choice: &[Part<'_>], word: &str) -> bool {
    starters(choice).iter().any(|literal| literal.eq_ignore_ascii_case(word))
}

/// A part of the grammar of which nothing has been typed.
fn open<'g>(parts: &[Part<'g>]) -> Rest<'g> {
    Rest { pieces: parts.iter().map(written).collect(), literals: starters(parts) }
}

/// `rest`, and then `parts`.
fn followed<'g>(mut rest: Rest<'g>, parts: &[Part<'g>]) -> Rest<'g> {
    if rest.pieces.iter().all(|piece| piece.starts_with('[')) {
        rest.literals.extend(starters(parts));
    }
    rest.pieces.extend(parts.iter().map(written));
    rest
}

/// The literals that a word at the beginning of `parts` may be.
fn starters<'g>(parts: &[Part<'g>]) -> Vec<&'g str> {
    let mut found = Vec::new();
    for part in parts {
        match part {
            Part::Word(word) => {
                found.extend(is_literal(word).then_some(*word));
                break;
            }
            Part::Choice(choices) => {
                found.extend(choices.iter().flat_map(|choice| starters(choice)));
                break;
            }
            Part::Optional(choices, _) => found.extend(choices.iter().flat_map(|choice| starters(choice))),
        }
    }
    found
}

/// A part as its grammar writes it.
fn written(part: &Part<'_>) -> String {
    let inside = |choices: &[Sequence<'_>]| {
        let choices: Vec<String> =
            choices.iter().map(|choice| choice.iter().map(written).collect::<Vec<_>>().join(" ")).collect();
        choices.join("|")
    };
    match part {
        Part::Word(word) => (*word).into(),
        Part::Optional(choices, repeats) => {
            format!("[{}{}]", inside(choices), if *repeats { " ..." } else { "" })
        }
        Part::Choice(choices) => format!("<{}>", inside(choices)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "key value [NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]";

    #[test]
    fn a_hint_shows_what_may_still_be_typed() {
        let cases: &[(&str, &str, Option<&str>)] = &[
            (SET, "", Some("key value [NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]")),
            (SET, "k", Some("value [NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]")),
            (SET, "k v", Some("[NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]")),
            (SET, "k v ex", Some("seconds [NX|XX] [GET]")),
            (SET, "k v ex 5 nx", Some("[GET]")),
            (SET, "k v get xx px 5", Some("")),
            (SET, "k v get get", None),
            (SET, "k v nonsense", None),
            ("key [key ...]", "a b c", Some("[key ...]")),
            ("key field value [field value ...]", "k f v f", Some("value [field value ...]")),
            ("source destination <LEFT|RIGHT> <LEFT|RIGHT>", "a b left", Some("<LEFT|RIGHT>")),
            ("source destination <LEFT|RIGHT> <LEFT|RIGHT>", "a b up", None),
            (
                "key [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC]",
                "k get",
                Some("pattern [GET pattern ...] [LIMIT offset count] [ASC|DESC]"),
            ),
            ("", "", Some("")),
            ("", "a", None),
        ];
        for (grammar, typed, expected) in cases {
            let typed: Vec<&str> = typed.split_whitespace().collect();
            let hint = rest(grammar, &typed).map(|rest| rest.pieces.join(" "));
            assert_eq!(hint.as_deref(), *expected, "{grammar} <- {typed:?}");
        }
    }

    #[test]
    fn only_words_that_may_come_next_are_offered() {
        let offered = |typed: &[&str]| rest(SET, typed).map(|rest| rest.literals);
        assert_eq!(offered(&["k"]), Some(vec![]));
        assert_eq!(offered(&["k", "v"]), Some(vec!["NX", "XX", "GET", "EX", "PX", "KEEPTTL"]));
        assert_eq!(offered(&["k", "v", "EX"]), Some(vec![]));
        assert_eq!(offered(&["k", "v", "EX", "1"]), Some(vec!["NX", "XX", "GET"]));
    }

    #[test]
    fn every_grammar_of_the_command_table_is_understood() {
        polder_engine::register();
        for (_, command) in polder_runtime::all() {
            let shown = rest(command.grammar, &[]).map(|rest| rest.pieces.join(" "));
            assert_eq!(shown.as_deref(), Some(command.grammar), "{}", command.name);
        }
    }
}
