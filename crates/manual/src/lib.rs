//! Manual pages and shell completions, which each program generates from its own command line.

use clap::{Args, Command};
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::PathBuf;

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
        clap_mangen::generate_to(program.disable_help_subcommand(true), &self.directory)
    }
}
