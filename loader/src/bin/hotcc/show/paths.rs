//! Prints the results of `hotcc paths`.

use super::print::{print_json, print_json_line, row, say, table, warn};
use hotcc::paths::maps::{Bumped, Paths};
use hotcc::paths::routes::{Change, Way};
use hotcc::paths::watch::News;
use hotcc_abi::path::PathKey;
use hotcc_host::error::Result;
use serde::Serialize;

pub fn known(paths: &Paths, json: bool) -> Result<()> {
    if json {
        return print_json(paths);
    }
    let Some(clock) = paths.clock else {
        say!("no path change has been recorded on this machine; see: hotcc paths watch --help");
        return Ok(());
    };
    let mut rows = vec![row(["destination", "generation"])];
    rows.extend(paths.paths.iter().map(|(key, generation)| vec![key.to_string(), generation.to_string()]));
    table(&rows);
    say!("clock {clock}; all other destinations have generation 0");
    Ok(())
}

pub fn bumped(prefix: PathKey, bumped: &Bumped, json: bool) -> Result<()> {
    if json {
        return print_json(bumped);
    }
    say!("{prefix}: generation {}", bumped.generation);
    match bumped.destinations.saturating_sub(1) {
        0 => {}
        _ if bumped.everything => {}
        1 => say!("  and 1 destination in it"),
        within => say!("  and {within} destinations in it"),
    }
    warn_of_everything(bumped);
    Ok(())
}

fn warn_of_everything(bumped: &Bumped) {
    if bumped.everything {
        warn(&["the path map was full: it was emptied, and all paths count as changed".to_owned()]);
    }
}

pub fn news(news: &News, json: bool) -> Result<()> {
    #[derive(Serialize)]
    struct Line {
        prefix: String,
        table: u32,
        before: Option<String>,
        after: Option<String>,
        generation: u32,
    }
    let (changes, bumped) = match news {
        News::Began(_) if json => return Ok(()),
        News::Began(routes) => {
            say!("watching the routes to {routes} {}", if *routes == 1 { "destination" } else { "destinations" });
            return Ok(());
        }
        News::Changed(changes, bumped) => (changes, bumped),
    };
    let text = |way: &Option<Way>| way.as_ref().map(Way::to_string);
    for Change { destination, table, before, after } in changes {
        let [before, after] = [before, after].map(text);
        let (prefix, table, generation) = (destination.to_string(), *table, bumped.generation);
        if json {
            print_json_line(&Line { prefix, table, before, after, generation })?;
            continue;
        }
        let [before, after] = [before, after].map(|way| way.unwrap_or_else(|| "no route".to_owned()));
        say!("{prefix} (table {table}): {before} -> {after}, generation {generation}");
    }
    warn_of_everything(bumped);
    Ok(())
}
