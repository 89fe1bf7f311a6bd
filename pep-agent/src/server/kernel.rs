//! The kernel's side: the program that writes verified records to sockets, run by this process alone.

use crate::daemon::need_bpffs;
use anyhow::{Context, Result};
use aya::maps::{Array, HashMap, MapData};
use aya::programs::{BtfTracePoint, SchedClassifier, TestRun, TestRunOptions};
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use hotcc_abi::pep::{Arm, ETHERNET_HEADER, Handover};
use hotcc_abi::pins;
use nix::ifaddrs::getifaddrs;
use std::fs;
use std::path::Path;

#[repr(transparent)]
#[derive(Clone, Copy)]
struct Counted(Arm);

// SAFETY: `Arm` is plain integers without padding.
unsafe impl Pod for Counted {}

/// The loaded programs. Dropped, they are gone; what they wrote stays with its sockets.
pub struct Kernel {
    ebpf: Ebpf,
    interfaces: HashMap<MapData, u32, [u8; 8]>,
    arms: Array<MapData, Counted>,
}

impl Kernel {
    /// Loads them for the sockets of the network namespace that the thread is in. The records go to the pinned storage
    /// that algorithms read, made if there is none yet.
    pub fn load() -> Result<Self> {
        let directory = Path::new(pins::PEP);
        need_bpffs(directory)?;
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let object = hotcc_bpf::prog("pep_server").context("this program was built without its BPF object")?;
        let loaded = EbpfLoader::new().default_map_pin_directory(directory).load(object.bytes);
        let mut ebpf = loaded.context("cannot load the PEP's programs")?;
        let program: &mut SchedClassifier = ebpf.program_mut(HAND_OVER).context("no such program")?.try_into()?;
        program.load().context("the kernel refuses the program that writes records")?;
        let program: &mut BtfTracePoint = ebpf.program_mut("closed").context("no such program")?.try_into()?;
        program
            .load("inet_sock_set_state", &Btf::from_sys_fs()?)
            .context("the kernel refuses to tell of ended flows")?;
        program.attach()?;
        let interfaces = HashMap::try_from(ebpf.take_map("interfaces").context("no such map")?)?;
        let arms = Array::try_from(ebpf.take_map("arms").context("no such map")?)?;
        let mut kernel = Self { ebpf, interfaces, arms };
        kernel.refresh_interfaces()?;
        Ok(kernel)
    }

    /// Looks again which interfaces there are: senders are clocked through those that were there at the last look.
    pub fn refresh_interfaces(&mut self) -> Result<()> {
        for interface in getifaddrs().context("cannot list the network interfaces")? {
            let Some(link) = interface.address.as_ref().and_then(|a| a.as_link_addr()) else { continue };
            let mut mac = [0; 8];
            mac[..6].copy_from_slice(&link.addr().unwrap_or_default());
            self.interfaces.insert(link.ifindex() as u32, mac, 0)?;
        }
        Ok(())
    }

    /// Something that hands records over, until this is dropped.
    pub fn hand(&self) -> Result<Hand<'_>> {
        Ok(Hand(self.ebpf.program(HAND_OVER).context("no such program")?.try_into()?))
    }

    /// What flows with (first) and without the PEP did.
    pub fn arms(&self) -> Result<[Arm; 2]> {
        Ok([self.arms.get(&0, 0)?.0, self.arms.get(&1, 0)?.0])
    }
}

const HAND_OVER: &str = "hand_over";

/// Hands records over.
#[derive(Debug)]
pub struct Hand<'a>(&'a SchedClassifier);

impl Hand<'_> {
    /// Hands a record over: which of [`hotcc_abi::pep::VERDICTS`] it met.
    pub fn over(&self, record: &Handover) -> Result<u32> {
        let mut frame = [0; ETHERNET_HEADER + size_of::<Handover>()];
        let ethertype: u16 = if record.family == 4 { 0x0800 } else { 0x86dd };
        frame[ETHERNET_HEADER - 2..ETHERNET_HEADER].copy_from_slice(&ethertype.to_be_bytes());
        frame[ETHERNET_HEADER..].copy_from_slice(bytemuck::bytes_of(record));
        let result = self.0.test_run(TestRunOptions { data_in: Some(&frame), ..TestRunOptions::new() });
        Ok(result.context("cannot hand a record to the kernel")?.return_value)
    }
}
