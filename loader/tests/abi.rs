//! Compares the structures that are shared with BPF programs with the objects' BTF, field by field. Needs no privilege.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc::policy::figures::FiguresEntry;
use hotcc::policy::layout;
use hotcc::sockets::count::{CountedGroup, GroupCounts};
use hotcc::sockets::exported::ExportedField;
use hotcc::sockets::learned::Learned;
use hotcc_abi::{border, hint, histogram, path, pep, radio, rx, stats};
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{Btf, HasSize};
use std::mem::offset_of;

fn btf(object: &hotcc_bpf::Object) -> (tempfile::NamedTempFile, Btf<'static>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.bytes).unwrap();
    let btf = Btf::from_path(file.path()).unwrap();
    (file, btf)
}

/// Returns the size of a C structure, and its members in order, with their offsets.
fn members(btf: &Btf<'_>, name: &str) -> (usize, Vec<(String, usize)>) {
    let found: Struct<'_> = btf.type_by_name(name).unwrap_or_else(|| panic!("no struct {name}"));
    let members = found.iter().map(|m| {
        let MemberAttr::Normal { offset } = m.attr else { panic!("{name} has a bit field") };
        (m.name.unwrap().to_str().unwrap().to_owned(), offset as usize / 8)
    });
    (found.size(), members.collect())
}

macro_rules! same_layout {
    ($btf:expr, $c_name:literal, $rust:ty, $($field:ident),+ $(,)?) => {
        let rust = vec![$((stringify!($field).to_owned(), offset_of!($rust, $field))),+];
        assert_eq!(members($btf, $c_name), (size_of::<$rust>(), rust), $c_name);
    };
}

#[test]
fn radio_maps() {
    for object in [hotcc_bpf::prog("radio_maps").unwrap(), hotcc_bpf::algo("dtcp").unwrap()] {
        let (_file, btf) = btf(object);
        same_layout!(&btf, "radio_header", radio::Header, magic, version, generation, reserved);
        same_layout!(&btf, "radio_key", radio::IndexKey, prefix_len, addr, port, pad);
        same_layout!(
            &btf,
            "radio_slot",
            radio::Slot,
            sinr,
            updates,
            capacity,
            rsrp_q8_dbm,
            rsrq_q8_db,
            max_age_ms,
            period_ms,
            freed_ms,
            owner_pid,
            state,
            cqi,
            mcs,
            source,
            reserved,
            cell,
            owner_start,
        );
    }
}

#[test]
fn path_maps() {
    for object in [hotcc_bpf::prog("path_maps").unwrap(), hotcc_bpf::algo("dcm").unwrap()] {
        let (_file, btf) = btf(object);
        same_layout!(&btf, "path_key", path::PathKey, prefix_len, addr);
    }
}

#[test]
fn pep_and_hints() {
    let (_file, mdcubic) = btf(hotcc_bpf::algo("mdcubic").unwrap());
    same_layout!(&mdcubic, "pep_range", pep::PepRange, start, end);
    same_layout!(
        &mdcubic,
        "pep_flow_v1",
        pep::PepFlow,
        updates,
        in_order,
        ranges,
        range_count,
        rtt_us,
        segments,
        reserved,
        time_ns,
    );
    let (_file, server) = btf(hotcc_bpf::prog("pep_server").unwrap());
    same_layout!(&server, "pep_cohort", pep::Cohort, flows, acked_bytes, active_ns, retransmits);
    same_layout!(
        &server,
        "pep_record_update",
        pep::PepRecordUpdate,
        server,
        client,
        server_port,
        client_port,
        family,
        flags,
        range_count,
        time_ns,
        border,
        in_order,
        segments,
        rtt_us,
        border_us,
        ranges,
    );
    let (_file, inband) = btf(hotcc_bpf::prog("pep_inband").unwrap());
    same_layout!(
        &inband,
        "pep_inband",
        pep::Inband,
        server,
        client,
        server_port,
        client_port,
        family,
        option,
        reserved,
    );
    let (_file, arwa) = btf(hotcc_bpf::algo("arwa").unwrap());
    same_layout!(&arwa, "arwa_hint_v2", hint::ArwaHint, time_ns, sequence, hint, wire_sequence, pad, bytes_acked);
}

#[test]
fn border_maps() {
    let (_file, btf) = btf(hotcc_bpf::prog("pep_border").unwrap());
    same_layout!(&btf, "endpoint", border::Endpoint, address, port, zero);
    same_layout!(&btf, "flow_key", border::FlowKey, server, client);
    same_layout!(&btf, "seq_range", pep::PepRange, start, end);
    same_layout!(&btf, "seen", border::Seen, in_order, range_count, ranges);
    same_layout!(&btf, "flow", border::Flow, lock, segments, unreported, zero, seen_ns, since_ns, seen, room);
    same_layout!(&btf, "report", border::Report, key, seen, segments, reason, seen_ns, since_ns);
    same_layout!(
        &btf,
        "counters",
        border::Counters,
        packets,
        tracked,
        untracked,
        other,
        fragments,
        extensions,
        malformed,
        gtp_u,
        flows_new,
        flows_ended,
        flows_refused,
        segments_busy,
        lost_sight,
        ranges_forgotten,
        acks,
        reports,
        reports_lost,
    );
}

#[test]
fn counters() {
    for object in hotcc_bpf::ALGOS {
        let (_file, btf) = btf(object);
        same_layout!(
            &btf,
            "hotcc_stats_v2",
            stats::AlgoStats,
            flows_opened,
            flows_closed,
            acked_bytes,
            retransmitted_segments,
            loss_events,
            timeouts,
            signal_fresh,
            signal_stale,
            signal_absent,
            min_rtt_us,
            final_srtt_us,
            duration_ms,
        );
        same_layout!(&btf, "histogram", histogram::Histogram, buckets, sum);
    }
}

#[test]
fn counters_of_receivers() {
    for object in [hotcc_bpf::algo("arwa"), hotcc_bpf::prog("rx_arwa"), hotcc_bpf::prog("rx_drwa")] {
        let (_file, btf) = btf(object.unwrap());
        same_layout!(
            &btf,
            "rx_counters_v1",
            rx::RxCounters,
            flows_agreed,
            hints_made,
            hints_sent,
            hints_without_room,
            hints_received,
            hints_refused,
            hints_applied,
            flows_clamped,
            clamps_set,
            clamps_refused,
        );
    }
}

#[test]
fn socket_groups() {
    let (_file, btf) = btf(hotcc_bpf::prog("sock_count").unwrap());
    // the C structure has map id and name in a nested structure, and the counts inline
    let (size, group) = members(&btf, "group");
    let (whose, counts) = group.split_at(2);
    let (counts, exported) = counts.split_at(counts.len() - 2);
    let at = |name: &str, offset: usize| (name.to_owned(), offset);
    assert_eq!(size, size_of::<CountedGroup>());
    assert_eq!(whose, [at("cc", offset_of!(CountedGroup, map_id)), at("pad", offset_of!(CountedGroup, pad))]);
    let counts: Vec<_> =
        counts.iter().map(|(name, at)| (name.clone(), at - offset_of!(CountedGroup, counts))).collect();
    let rust = [
        at("connections", offset_of!(GroupCounts, connections)),
        at("listeners", offset_of!(GroupCounts, listeners)),
        at("cwnd_segments", offset_of!(GroupCounts, cwnd_segments)),
        at("srtt_us", offset_of!(GroupCounts, srtt_us)),
        at("delivery_kbps", offset_of!(GroupCounts, delivery_kbps)),
    ];
    assert_eq!(counts, rust);
    let rust = [at("exported", offset_of!(CountedGroup, exported)), at("fields", offset_of!(CountedGroup, fields))];
    assert_eq!(exported, rust);
    same_layout!(&btf, "exported_field", ExportedField, offset, size, first, counts, reading, is_forecast);
    let cc = [at("map_id", offset_of!(CountedGroup, map_id)), at("name", offset_of!(CountedGroup, name))];
    assert_eq!(members(&btf, "socket_cc").1, cc);
    same_layout!(&btf, "log2_histogram", histogram::Log2Histogram, buckets, sum);
}

#[test]
fn policy() {
    for object in ["policy", "sock_migrate"] {
        let (_file, btf) = btf(hotcc_bpf::prog(object).unwrap());
        same_layout!(
            &btf,
            "policy_rule",
            layout::RuleEntry,
            remote,
            local,
            interface,
            cc_name,
            id,
            cgroup,
            cgroup_depth,
            remote_len,
            local_len,
            remote_set,
            local_set,
            netns,
            uid,
            signal_q8,
            share,
            seed,
            criteria,
            overrides,
            port_first,
            port_last,
            cohort,
        );
        same_layout!(&btf, "policy_prefix", layout::PrefixKey, prefix_len, set, addr);
    }
    let (_file, btf) = btf(hotcc_bpf::prog("policy").unwrap());
    same_layout!(
        &btf,
        "policy_flow",
        layout::FlowEntry,
        remote,
        local,
        interface,
        cgroup,
        netns,
        uid,
        signal_q8,
        known,
        remote_port,
        local_port,
        pad,
    );
    same_layout!(&btf, "policy_counts", layout::Counts, connections, listeners, left_alone, unavailable, refused,);
    same_layout!(
        &btf,
        "policy_text",
        layout::TextEntry,
        remote_digest,
        local_digest,
        remote_prefixes,
        local_prefixes,
        toml,
    );
    same_layout!(&btf, "policy_job", layout::JobEntry, rules, criteria_in_use, only_count, tick_us);
    same_layout!(
        &btf,
        "policy_figures",
        FiguresEntry,
        connections,
        acked_bytes,
        segments,
        retransmits,
        timeouts,
        figures
    );
    same_layout!(
        &btf,
        "policy_ended",
        layout::EndedEntry,
        rule,
        began_ns,
        acked_bytes,
        rtt_us,
        min_rtt_us,
        goodput_kbps,
        delivery_kbps,
        duration_ms,
        segments,
        retransmits,
        timeouts,
        pad,
    );
    same_layout!(&btf, "policy_cohorts", layout::CohortsEntry, ended, dropped);
    same_layout!(&btf, "policy_canary", layout::CanaryEntry, rules, expires_ns, share, state, step, steps, from, to,);
    same_layout!(
        &btf,
        "policy_moved",
        layout::Moved,
        moved,
        same,
        left_alone,
        unavailable,
        refused,
        unmatched,
        learned
    );
    same_layout!(&btf, "learned_counts", Learned, bandwidth, base_rtt, n);
}

/// Constants that C and Rust must share, as the C headers define them.
#[test]
fn constants() {
    let headers =
        [include_str!("../../bpf/include/hotcc/radio.h"), include_str!("../../bpf/include/hotcc/path.h")].concat();
    let defined = |name: &str| -> String {
        let line = headers.lines().find(|l| l.starts_with(&format!("#define {name} "))).unwrap();
        line.splitn(3, ' ').nth(2).unwrap().trim().to_owned()
    };
    assert_eq!(defined("RADIO_VERSION"), radio::VERSION.to_string());
    assert_eq!(defined("RADIO_SLOTS"), radio::SLOTS.to_string());
    assert_eq!(defined("RADIO_INDEX_ENTRIES"), radio::INDEX_ENTRIES.to_string());
    assert_eq!(defined("RADIO_FULL_PREFIX_LEN"), radio::FULL_PREFIX_LEN.to_string());
    assert_eq!(defined("RADIO_DEFAULT_MAX_AGE_MS"), radio::DEFAULT_MAX_AGE_MS.to_string());
    assert_eq!(defined("RADIO_MAX_AGE_LIMIT_MS"), radio::MAX_AGE_LIMIT_MS.to_string());
    assert_eq!(defined("PATH_ENTRIES"), path::ENTRIES.to_string());
    assert_eq!(defined("PATH_FULL_PREFIX_LEN"), path::FULL_PREFIX_LEN.to_string());
    assert_eq!(defined("RADIO_SINR_MIN_Q8"), format!("({} * 256)", radio::SINR_RANGE_DB.start()));
    assert_eq!(defined("RADIO_SINR_MAX_Q8"), format!("({} * 256)", radio::SINR_RANGE_DB.end()));
}

#[test]
fn verdicts_on_records() {
    let source = include_str!("../../bpf/progs/pep_server.bpf.c");
    let (_, names) = source.split_once("enum verdict {").unwrap();
    let (names, _) = names.split_once('}').unwrap();
    let names: Vec<_> = names.lines().filter_map(|line| line.trim().split_once(',')).map(|(name, _)| name).collect();
    assert_eq!(names, pep::VERDICTS.map(|v| format!("PEP_{}", v.to_uppercase())));
}

/// Every object describes itself, and its initial values are those of its `default` profile.
#[test]
fn descriptions() {
    for object in hotcc_bpf::ALGOS {
        let opened = hotcc::object::Source::builtin(object).open().unwrap();
        assert_eq!(opened.cc_name, object.name);
        let d = &opened.description;
        assert!(d.summary.is_some() && d.paper.is_some(), "{}", object.name);
        assert!(!d.tunables.is_empty() && !d.state.is_empty(), "{}", object.name);
        for tunable in &d.tunables {
            let range = tunable.min..=tunable.max;
            for value in [tunable.default.unwrap(), tunable.paper.unwrap()] {
                assert!(range.contains(&value), "{}: {} = {value}", object.name, tunable.name);
            }
            assert!(!tunable.help.is_empty());
            let value = tunable.place.read(&opened.initial_values(tunable.section).unwrap());
            assert_eq!(value, tunable.default, "{}: {}", object.name, tunable.name);
        }
        for field in &d.state {
            assert!(!field.help.is_empty(), "{}: {}", object.name, field.name);
            assert!(field.place.offset + field.place.size <= 104);
        }
    }
}
