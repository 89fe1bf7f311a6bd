//! Manual pages and shell completions, which each program generates from its own command line.

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell to print it for
    pub shell: Shell,
}

impl Completions {
    /// Writes the completion script of `program` to stdout.
    ///
    /// # Errors
    /// Stdout is closed.
    pub fn print(&self, mut program: Command) -> io::Result<()> {
        let name = program.get_name().to_owned();
        let mut script = Vec::new(); // the generator panics if its writer fails
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        io::stdout().write_all(&script)
    }
}

/// Arguments of the hidden command `man`, with which the manual pages of packages are generated.
#[derive(Debug, Args)]
pub struct Man {
    /// Existing directory to write to
    pub directory: PathBuf,
}

impl Man {
    /// Writes one page for `program`, and one for each of its commands that `--help` lists.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn write(&self, program: Command) -> io::Result<()> {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        write_pages(program, &self.directory)
    }
}

/// Writes the page of a command, and those of its commands.
fn write_pages(mut command: Command, directory: &Path) -> io::Result<()> {
    let listed: Vec<Command> = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    // the library's synopsis lacks the names of values, and it fills examples
    let usage = command.render_usage().to_string();
    let notes = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let page = Page::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    section("SYNOPSIS", usage.trim_start_matches("Usage: "), &mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if !listed.is_empty() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(notes) = notes {
        section("NOTES", &notes, &mut text)?;
    }
    if command.get_version().is_some() {
        page.render_version_section(&mut text)?;
    }
    fs::write(directory.join(page.get_filename()), text)?;
    listed.into_iter().try_for_each(|command| write_pages(command, directory))
}

/// Writes a section. Lines that begin with spaces stay as they are.
fn section(title: &str, lines: &str, page: &mut dyn Write) -> io::Result<()> {
    let (mut section, mut stays) = (Roff::new(), false);
    section.control("SH", [title]);
    for line in lines.lines() {
        if line.starts_with(' ') != stays {
            stays = !stays;
            section.control(if stays { "nf" } else { "fi" }, []);
        }
        match line {
            "" => section.control("PP", []),
            line => section.text([roman(line)]),
        };
    }
    section.control("fi", []).to_writer(page)
}
