//! The kernel matrix: every algorithm and peer is loaded, carries traffic, is swapped, rolled back and unloaded on every
//! kernel, policy rules apply to new and open connections, and receivers act on connections.

use crate::guest::Boot;
use crate::image::Image;
use anyhow::{Context, Result, bail};
use hotcc_kernels::Kernel;
use hotcc_lab_proto::job::{Job, Message, OBJECTS_PATH, Row, Subject};

/// Kernel modules that the matrix needs; built-in ones are left out.
const MODULES: [&str; 0] = [];
const MEMORY_MIB: u32 = 512;

/// The result of one kernel.
#[derive(Debug)]
pub struct Column {
    /// Release of the kernel.
    pub release: String,
    /// A row for each algorithm, or the reason why there are none.
    pub rows: Result<Vec<Row>>,
}

/// Runs the matrix on one kernel. Reports progress to `say`.
pub fn run(kernel: &Kernel, bytes: u64, say: &mut dyn FnMut(&str)) -> Column {
    let rows = rows(kernel, bytes, say);
    Column { release: kernel.release.clone(), rows }
}

fn rows(kernel: &Kernel, bytes: u64, say: &mut dyn FnMut(&str)) -> Result<Vec<Row>> {
    let embedded = hotcc_bpf::ALGOS.iter().chain(hotcc_bpf::PEERS);
    let mut subjects: Vec<Subject> =
        embedded.map(|o| Subject { object: o.name.to_owned(), cc: o.name.to_owned() }).collect();
    let mut image = Image::default();
    // third parties' objects: one uses `cong_control`, whose signature changed, and one is older than struct_ops links;
    // kernels differ most in these
    for name in ["stranger", "foreign"] {
        let object = hotcc_bpf::TEST_OBJECTS.iter().find(|o| o.name == name).context("a test object is missing")?;
        let path = format!("{OBJECTS_PATH}/{name}.bpf.o");
        image.file(path.clone(), 0o644, object.bytes.to_vec());
        subjects.push(Subject { object: path, cc: name.to_owned() });
    }
    let expected = subjects.len() + 2; // and policy rules, and receivers
    let mut rows = Vec::new();
    let boot = Boot { image, kernel, modules: &MODULES, memory_mib: MEMORY_MIB, cpu: None };
    boot.run(&Job::Matrix { subjects, bytes }, |message| {
        match message {
            Message::Booted { release, uptime_s } => {
                say(&format!("{release} booted after {uptime_s:.1} s of guest time"))
            }
            Message::Progress(text) => say(text),
            Message::Row(row) => rows.push(row.clone()),
            Message::Output(_) | Message::Counted(_) | Message::Done { .. } | Message::Failed(_) => {}
        }
        Ok(())
    })?;
    if rows.len() != expected {
        bail!("the guest reported {} of {expected} objects", rows.len());
    }
    Ok(rows)
}

/// Returns a line for each kernel and algorithm: the steps that worked, and the first one that failed.
#[must_use]
pub fn table(columns: &[Column]) -> String {
    let mut lines = Vec::new();
    for column in columns {
        match &column.rows {
            Err(why) => lines.push(format!("{}: {why:#}", column.release)),
            Ok(rows) => lines.extend(rows.iter().map(|row| {
                let failed = row.steps.iter().find_map(|s| s.error.as_ref().map(|e| format!("{}: {e}", s.what)));
                let done = row.steps.iter().filter(|s| s.error.is_none()).map(|s| s.what.as_str());
                let text = failed.map_or_else(|| "ok".to_owned(), |f| format!("FAILED at {f}"));
                let done = done.collect::<Vec<_>>().join(", ");
                format!("{:<32} {:<12} {text:<6} ({done})", column.release, row.algorithm)
            })),
        }
    }
    lines.join("\n")
}
