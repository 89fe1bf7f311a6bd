//! The kernel's side: the program that writes verified records to sockets. Only this process can run it.

use crate::border::kernel::explained;
use crate::object;
use aya::maps::{Array, HashMap, MapData};
use aya::programs::{BtfTracePoint, SchedClassifier, TestRun, TestRunOptions};
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use hotcc_abi::pep::{Cohort, ETHERNET_HEADER, PepRecordUpdate};
use hotcc_abi::pins;
use hotcc_host::bpffs;
use hotcc_host::error::{Kind, Result, Tried};
use nix::ifaddrs::getifaddrs;
use std::path::Path;

pub(super) const NEEDS: &str = "this needs Linux 5.16 or later with CONFIG_BPF_SYSCALL and BTF";

#[repr(transparent)]
#[derive(Clone, Copy)]
struct Counted(Cohort);

// SAFETY: `Cohort` is plain integers without padding.
unsafe impl Pod for Counted {}

/// The loaded programs. Dropping this value unloads them; the records stay with their sockets.
pub struct Kernel {
    ebpf: Ebpf,
    interfaces: HashMap<MapData, u32, [u8; 8]>,
    cohorts: Array<MapData, Counted>,
}

impl Kernel {
    /// Loads the programs for the sockets of the thread's network namespace. The records go to the pinned storage that
    /// algorithms read, which is created if it does not exist.
    pub fn load() -> Result<Self> {
        let directory = Path::new(pins::PEP);
        bpffs::need(directory)?;
        bpffs::make(directory)?;
        // first, because without it the kernel's refusals below say less
        let btf = Btf::from_sys_fs().tried(|| "cannot read the kernel's BTF".to_owned());
        let btf = btf.map_err(|error| match error.io().map(std::io::Error::kind) {
            Some(std::io::ErrorKind::NotFound) => error.as_kind(Kind::KernelLacks).and(NEEDS),
            _ => error,
        })?;
        let loaded = EbpfLoader::new().default_map_pin_directory(directory).load(object::bytes("pep_server")?);
        let mut ebpf = explained(loaded, "cannot load the BPF object of the PEP", NEEDS)?;
        let program: &mut SchedClassifier = object::program_mut(&mut ebpf, UPDATE_RECORD)?;
        explained(program.load(), "cannot load the program that writes records", NEEDS)?;
        let program: &mut BtfTracePoint = object::program_mut(&mut ebpf, "closed")?;
        explained(program.load("inet_sock_set_state", &btf), "cannot trace the end of flows", NEEDS)?;
        program.attach().tried(|| "cannot trace the end of flows".to_owned())?;
        let interfaces = object::take_map(&mut ebpf, "interfaces")?;
        let cohorts = object::take_map(&mut ebpf, "cohorts")?;
        let mut kernel = Self { ebpf, interfaces, cohorts };
        kernel.refresh_interfaces()?;
        Ok(kernel)
    }

    /// Reads the list of interfaces again: senders are clocked through the interfaces that existed at the last read.
    pub fn refresh_interfaces(&mut self) -> Result<()> {
        let tried = || "cannot list the network interfaces".to_owned();
        for interface in getifaddrs().tried(tried)? {
            let Some(link) = interface.address.as_ref().and_then(|a| a.as_link_addr()) else { continue };
            let mut mac = [0; 8];
            mac[..6].copy_from_slice(&link.addr().unwrap_or_default());
            self.interfaces.insert(link.ifindex() as u32, mac, 0).tried(tried)?;
        }
        Ok(())
    }

    /// Returns a handle that passes records to the kernel.
    pub fn hand(&self) -> Result<Hand<'_>> {
        object::program(&self.ebpf, UPDATE_RECORD).map(Hand)
    }

    /// Returns the totals of flows with the PEP (first) and without it.
    pub fn cohorts(&self) -> Result<[Cohort; 2]> {
        let cohort = |index| self.cohorts.get(&index, 0).map(|counted| counted.0);
        let [with, without] =
            [0, 1].map(|index| cohort(index).tried(|| "cannot read the statistics of ended flows".to_owned()));
        Ok([with?, without?])
    }
}

const UPDATE_RECORD: &str = "update_record";

/// Passes records to the kernel.
#[derive(Debug)]
pub struct Hand<'a>(&'a SchedClassifier);

impl Hand<'_> {
    /// Passes a record to the kernel. Returns an index into [`hotcc_abi::pep::VERDICTS`].
    pub fn over(&self, record: &PepRecordUpdate) -> Result<u32> {
        let mut frame = [0; ETHERNET_HEADER + size_of::<PepRecordUpdate>()];
        let ethertype: u16 = if record.family == 4 { 0x0800 } else { 0x86dd };
        frame[ETHERNET_HEADER - 2..ETHERNET_HEADER].copy_from_slice(&ethertype.to_be_bytes());
        frame[ETHERNET_HEADER..].copy_from_slice(bytemuck::bytes_of(record));
        let result = self.0.test_run(TestRunOptions { data_in: Some(&frame), ..TestRunOptions::new() });
        Ok(result.tried(|| "cannot hand a record to the kernel".to_owned())?.return_value)
    }
}
