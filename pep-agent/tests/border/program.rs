//! Runs the border's program on packets, one by one (BPF_PROG_TEST_RUN).

use crate::packet::Packet;
use aya::maps::lpm_trie::Key;
use aya::maps::{HashMap, LpmTrie, MapData, PerCpuArray, RingBuf};
use aya::programs::{ProgramError, SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use hotcc_abi::border::{COUNTERS, Counters, Flow, Report};
use hotcc_abi::path::PathKey;
use hotcc_testbed::kernel::is_root_with_bpffs;
use hotcc_testbed::pin_root::PinRoot;
use pep_agent::border::records;
use std::fs;
use std::net::{IpAddr, SocketAddr};

pub const SERVER: &str = "192.0.2.1:443";
pub const SERVER_V6: &str = "[2001:db8::1]:443";
/// TC_ACT_UNSPEC, which is also TCX_NEXT.
pub const PASS: u32 = u32::MAX;
/// Size and field offsets of `struct __sk_buff`.
const SKB_SIZE: usize = 192;
const SKB_GSO_SEGS: usize = 164;
const SKB_GSO_SIZE: usize = 176;

/// The loaded programs with maps of their own, which end with this value.
pub struct Program {
    ebpf: Ebpf,
    flows: HashMap<MapData, [u8; 40], [u8; size_of::<Flow>()]>,
    ring: RingBuf<MapData>,
    counters: PerCpuArray<MapData, [u64; COUNTERS]>,
}

/// State of a flow in the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowState {
    pub in_order: u32,
    pub ranges: Vec<(u32, u32)>,
    pub segments: u32,
}

/// The settings with which the programs are loaded.
#[derive(Clone, Copy)]
pub struct Settings {
    pub segments: u32,
    pub delay_us: u32,
    pub flows: u32,
    pub ring_bytes: u32,
}

/// Settings with which reports are due only for gaps.
pub const PATIENT: Settings =
    Settings { segments: u32::MAX, delay_us: 1_000_000_000, flows: 4096, ring_bytes: 1 << 20 };

/// Loads the programs. Without root, prints a line that says so and returns `None`.
pub fn program(test: &str, settings: Settings) -> Option<Program> {
    is_root_with_bpffs(test).then(|| Program::load(test, settings))
}

impl Program {
    fn load(test: &str, settings: Settings) -> Self {
        let pins = PinRoot::new("pep-agent", test);
        fs::create_dir(&pins).unwrap();
        let loaded = EbpfLoader::new()
            .default_map_pin_directory(&pins)
            .map_max_entries("flows", settings.flows)
            .map_max_entries("reports", settings.ring_bytes)
            .override_global("report_segments", &settings.segments, true)
            .override_global("report_delay_us", &settings.delay_us, true)
            .load(hotcc_bpf::prog("pep_border").unwrap().bytes);
        drop(pins); // removed now, so that nothing is left behind however this ends
        let mut ebpf = loaded.unwrap();
        for (_, program) in ebpf.programs_mut() {
            let program: &mut SchedClassifier = program.try_into().unwrap();
            program.load().unwrap();
        }
        let mut servers: LpmTrie<MapData, [u8; 16], u32> = ebpf.take_map("servers").unwrap().try_into().unwrap();
        for prefix in ["192.0.2.0/24", "2001:db8::/32"] {
            let prefix: PathKey = prefix.parse().unwrap();
            servers.insert(&Key::new(prefix.prefix_len, prefix.addr), 1, 0).unwrap();
        }
        let flows = HashMap::try_from(ebpf.take_map("flows").unwrap()).unwrap();
        let ring = RingBuf::try_from(ebpf.take_map("reports").unwrap()).unwrap();
        let counters = PerCpuArray::try_from(ebpf.take_map("counters").unwrap()).unwrap();
        Self { ebpf, flows, ring, counters }
    }

    /// Runs the program on a frame from the Internet, and checks that the frame passes unchanged. Returns whether the
    /// kernel runs programs on this frame.
    pub fn data(&self, frame: &[u8]) -> bool {
        self.run("border_data", frame, None)
    }

    /// The same for a super-packet. With `segments` 0, only the size is set, as the devices of virtual machines do.
    pub fn super_packet(&self, frame: &[u8], segments: u32, size: u32) -> bool {
        let mut skb = [0; SKB_SIZE];
        skb[SKB_GSO_SEGS..][..4].copy_from_slice(&segments.to_ne_bytes());
        skb[SKB_GSO_SIZE..][..4].copy_from_slice(&size.to_ne_bytes());
        self.run("border_data", frame, Some(&skb))
    }

    /// Runs the program on a frame from the access network, and checks that the frame passes unchanged.
    pub fn ack(&self, frame: &[u8]) -> bool {
        self.run("border_acks", frame, None)
    }

    fn run(&self, name: &str, frame: &[u8], skb: Option<&[u8]>) -> bool {
        let program: &SchedClassifier = self.ebpf.program(name).unwrap().try_into().unwrap();
        let verdict = given(program, frame, skb);
        assert!(verdict.is_none_or(|verdict| verdict == PASS), "{verdict:?}");
        verdict.is_some()
    }

    /// Runs `border_poll` or `border_end_poll`, as the agent does.
    pub fn agent(&self, name: &str) {
        let program: &SchedClassifier = self.ebpf.program(name).unwrap().try_into().unwrap();
        program.test_run(TestRunOptions { data_in: Some(&[0; 14]), ..Default::default() }).unwrap();
    }

    pub fn counters(&self) -> Counters {
        Counters::sum(self.counters.get(&0, 0).unwrap().iter())
    }

    /// Sets whether the flow's lock is held.
    pub fn set_lock(&mut self, server: SocketAddr, client: SocketAddr, is_held: bool) {
        let key = flow_key(server, client);
        let mut flow: Flow = bytemuck::pod_read_unaligned(&self.flows.get(&key, 0).unwrap());
        flow.lock = is_held.into();
        self.flows.insert(key, bytemuck::cast::<_, [u8; size_of::<Flow>()]>(flow), 0).unwrap();
    }

    pub fn flow(&self, server: SocketAddr, client: SocketAddr) -> Option<FlowState> {
        let value = self.flows.get(&flow_key(server, client), 0).ok()?;
        let Flow { lock, segments, seen, .. } = bytemuck::pod_read_unaligned(&value);
        assert_eq!(lock, 0, "the lock is free");
        let ranges = seen.ranges[..seen.range_count as usize].iter().map(|r| (r.start, r.end)).collect();
        Some(FlowState { in_order: seen.in_order, ranges, segments })
    }

    pub fn flow_count(&self) -> usize {
        self.flows.keys().filter(Result::is_ok).count()
    }

    /// Takes all reports out of the ring.
    pub fn reports(&mut self) -> Vec<Report> {
        let mut found = Vec::new();
        while let Some(item) = self.ring.next() {
            found.push(records::read(&item).unwrap());
        }
        found
    }

    /// Runs the program on one segment of the flow from [`SERVER`].
    pub fn segment(&self, client: SocketAddr, seq: u32, payload: usize) {
        self.data(&Packet::data(SERVER.parse().unwrap(), client, seq, payload).frame());
    }
}

fn flow_key(server: SocketAddr, client: SocketAddr) -> [u8; 40] {
    let mut key = [0; 40];
    for (place, address) in [(0, server), (20, client)] {
        let octets = match address.ip() {
            IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
            IpAddr::V6(a) => a.octets(),
        };
        key[place..place + 16].copy_from_slice(&octets);
        key[place + 16..place + 18].copy_from_slice(&address.port().to_be_bytes());
    }
    key
}

/// Returns what a program returns for a frame, and checks that it leaves the frame unchanged. Returns `None` if the
/// kernel does not run programs on such a frame.
pub fn given(program: &SchedClassifier, frame: &[u8], skb: Option<&[u8]>) -> Option<u32> {
    let mut out = vec![0; frame.len() + 64];
    let options = TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ctx_in: skb, ..Default::default() };
    let result = match program.test_run(options) {
        // newer kernels reject frames with an IP ethertype that are shorter than that, unless they are tagged
        Err(ProgramError::SyscallError(e)) if e.io_error.raw_os_error() == Some(22) && frame.len() < 54 => return None,
        result => result.unwrap(),
    };
    assert_eq!(&out[..result.data_size_out as usize], frame, "the packet was changed");
    Some(result.return_value)
}

/// Returns a different client for each number.
pub fn client(number: u32) -> SocketAddr {
    let [a, b, c, d] = (0x0a00_0000 + number / 60_000).to_be_bytes();
    SocketAddr::from(([a, b, c, d], 2000 + (number % 60_000) as u16))
}
