//! `hotcc trace`: what each ACK found, from the kernel into a file.

mod output;
mod record;

pub use output::Format;

use crate::object::check_cc_name;
use crate::object::prepare::set_job;
use crate::sysctl;
use bytemuck::{Pod, Zeroable};
use hotcc_abi::path::PathKey;
use hotcc_host::cstr::padded;
use hotcc_host::error::{Error, Result, Tried, need_root};
use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};
use output::Output;
use record::{Entry, Namespaces};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest time between two looks into the ring, so that signals and the time limit act soon.
const POLL: Duration = Duration::from_millis(100);
/// Period of reports of progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// Options of `hotcc trace`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file; `None`: stdout.
    pub file: Option<PathBuf>,
    /// Format of the file.
    pub format: Format,
    /// Only connections that use this congestion control.
    pub cc: Option<String>,
    /// Only connections whose peer is in this prefix.
    pub to_prefix: Option<PathKey>,
    /// Record one of so many ACKs of each connection; at least 1.
    pub every: u32,
    /// End after this time.
    pub limit: Option<Duration>,
    /// Size of the kernel's ring of records that are not yet written.
    pub ring_bytes: u32,
}

/// What a trace has. Schema of `hotcc trace --json`; fields are only ever added.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Recorded ACKs: rows of the file.
    pub acks: u64,
    /// Connections that they belong to.
    pub connections: usize,
    /// ACKs that are missing from the file: the ring buffer had no room.
    pub dropped: u64,
    /// Duration of the trace.
    pub duration_s: f64,
}

/// `struct trace_job` of `ack_trace`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Job {
    cc_name: [u8; 16],
    peers: [u8; 16],
    peers_mask: [u8; 16],
    every: u32,
    v6_only: u32,
}

impl Job {
    fn new(options: &Options) -> Self {
        let peers = options.to_prefix.unwrap_or(PathKey::ALL_V6);
        Self {
            cc_name: options.cc.as_deref().map_or([0; 16], padded),
            peers: peers.addr,
            peers_mask: peers.mask(),
            every: options.every.max(1),
            v6_only: options.to_prefix.is_some_and(|prefix| !prefix.is_v4()).into(),
        }
    }
}

/// Records ACKs until `stop` is set or the time is over. Calls `progress` when it has begun, and then
/// once per second.
///
/// # Errors
/// Fails if the kernel refuses the program, or the file cannot be written; it then has what was written until then.
pub fn trace(options: &Options, stop: &AtomicBool, mut progress: impl FnMut(&Summary)) -> Result<Summary> {
    need_root("hotcc trace")?;
    if let Some(cc) = &options.cc {
        check_cc_name(cc)?;
        if !sysctl::is_registered(cc)? {
            return Err(Error::failed(sysctl::unregistered(cc, &sysctl::available()?)));
        }
    }
    let program = Program::load(&Job::new(options), options.ring_bytes)?;
    let name = options.file.as_ref().map_or_else(|| "stdout".to_owned(), |file| file.display().to_string());
    let to: Box<dyn Write + Send> = match &options.file {
        Some(file) => Box::new(File::create(file).tried(|| format!("cannot create {name}"))?),
        None => Box::new(io::stdout()),
    };
    let written = || format!("cannot write to {name}");
    let mut output = Output::new(options.format, to).tried(written)?;

    let read = RefCell::new(Vec::<Entry>::new());
    let mut ring = RingBufferBuilder::new();
    let acks = program.map("acks")?;
    let add = |bytes: &[u8]| {
        read.borrow_mut().extend(bytemuck::try_pod_read_unaligned::<Entry>(bytes));
        0
    };
    let tried = || "cannot read the kernel's records".to_owned();
    ring.add(&acks, add).tried(tried)?;
    let ring = ring.build().tried(tried)?;

    let mut attached = Some(program.attach()?);
    let begun = Instant::now();
    let mut namespaces = Namespaces::default();
    let mut connections = BTreeSet::<(u32, (SocketAddr, SocketAddr))>::new();
    let mut summary = Summary { acks: 0, connections: 0, dropped: 0, duration_s: 0.0 };
    let mut next_progress = begun + PROGRESS;
    progress(&summary);
    loop {
        let over = stop.load(Ordering::Relaxed) || options.limit.is_some_and(|limit| begun.elapsed() >= limit);
        if over && let Some(link) = attached.take() {
            drop(link); // what the ring has by now is still read
            summary.duration_s = begun.elapsed().as_secs_f64();
        }
        if over {
            ring.consume().tried(tried)?;
        } else {
            match ring.poll(POLL) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => return Err(error).tried(tried),
                _ => {}
            }
        }
        for entry in read.take() {
            connections.insert((entry.netns, entry.ends()));
            summary.acks += 1;
            output.add(entry.row(&mut namespaces)).tried(written)?;
        }
        summary.connections = connections.len();
        summary.dropped = program.dropped()?;
        if over {
            break;
        }
        if Instant::now() >= next_progress {
            summary.duration_s = begun.elapsed().as_secs_f64();
            output.flush().tried(written)?;
            progress(&summary);
            next_progress += PROGRESS;
        }
    }
    output.finish().tried(written)?;
    Ok(summary)
}

/// The kernel's part. It ends with this process; nothing is pinned.
struct Program(Object);

impl Program {
    fn load(job: &Job, ring_bytes: u32) -> Result<Self> {
        let embedded = hotcc_bpf::prog("ack_trace").ok_or_else(|| Error::failed("ack_trace is not built in"))?;
        let tried = || "cannot load the program that records ACKs".to_owned();
        let mut open = ObjectBuilder::default().open_memory(embedded.bytes).tried(tried)?;
        set_job(&mut open, job)?;
        let mut ring = open.maps_mut().find(|map| map.name() == "acks");
        ring.as_mut().map_or(Ok(()), |ring| ring.set_max_entries(ring_bytes)).tried(tried)?;
        Ok(Self(open.load().tried(tried)?))
    }

    fn attach(&self) -> Result<Link> {
        let program = self.0.progs_mut().next().ok_or_else(|| Error::failed("ack_trace has no program"))?;
        program.attach().tried(|| "cannot attach to the kernel's tracepoint tcp_probe".to_owned())
    }

    fn map(&self, name: &str) -> Result<Map<'_>> {
        let map = self.0.maps().find(|map| map.name() == name);
        map.ok_or_else(|| Error::failed(format!("ack_trace has no map {name}")))
    }

    fn dropped(&self) -> Result<u64> {
        let tried = || "cannot read how many ACKs were not recorded".to_owned();
        let value = self.map("dropped")?.lookup(&[0; 4], MapFlags::empty()).tried(tried)?;
        Ok(value.and_then(|bytes| bytemuck::try_pod_read_unaligned(&bytes).ok()).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_becomes_an_address_and_a_mask() {
        let job = |prefix: Option<&str>| {
            let to_prefix = prefix.map(|prefix| prefix.parse().unwrap());
            let options = Options {
                file: None,
                format: Format::Csv,
                cc: None,
                to_prefix,
                every: 0,
                limit: None,
                ring_bytes: 4096,
            };
            Job::new(&options)
        };
        assert_eq!((job(None).peers_mask, job(None).every), ([0; 16], 1));
        let of = job(Some("192.0.2.0/24"));
        assert_eq!(of.peers_mask, (u128::MAX << 8).to_be_bytes());
        assert_eq!(of.peers[10..], [0xff, 0xff, 192, 0, 2, 0]);
        assert_eq!(
            (job(Some("2001:db8::1")).peers_mask, job(Some("::/0")).v6_only, job(None).v6_only),
            ([0xff; 16], 1, 0)
        );
    }
}
