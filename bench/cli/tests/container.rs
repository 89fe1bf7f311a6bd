//! The image and the Kubernetes manifests: on a clean Debian in a virtual machine, containers with the rights of the
//! DaemonSet apply the node's rules, a connection of the node follows them, and Prometheus' page shows it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::machine::stock_kernel;
use common::systemd::{self, boot};
use hotcc_testbed::command::succeed;
use hotcc_testbed::debian;
use hotcc_testbed::kernel::skipped;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const MANUAL: &str = include_str!("../../../docs/guide/containers.md");
/// Releases of Kubernetes: the oldest that knows all fields of the manifests, and the newest of the checker.
const RELEASES: [&str; 2] = ["1.30", "1.37"];
/// Port of the service whose connections the test's rule is for.
const SERVICE: u16 = 5000;

/// Runs in the virtual machine. @APPLY@ and @EXPORTER@ stand for the commands that run a container.
const SCRIPT: &str = r#"#!/bin/sh
exec >/dev/ttyS0 2>&1
set -eu
trap 'echo "== end $?"; systemctl --no-block poweroff --force --force' EXIT
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
say() { echo "== $*"; }
podman build --quiet --tag localhost/hotcc --file /image/Containerfile /image
mkdir -p /run/hotcc /var/lib/hotcc
say apply
@APPLY@
say exporter
@EXPORTER@ &
say flow
perl /image/flow.pl
"#;

/// A connection to the service that transfers 1 MB; the page of metrics while it is open.
const FLOW: &str = r#"use IO::Socket;
my $listener = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:@SERVICE@") or die;
my $to = IO::Socket::INET->new("127.0.0.1:@SERVICE@") or die;
my $from = $listener->accept or die;
if (!fork) { print $to "x" x 1e6; exit }
for (my $got = 0; $got < 1e6;) { $got += sysread $from, my $arrived, 1e5 or die }
print "1 MB under ", unpack("Z*", getsockopt $to, 6, 13), "\n";
for (1 .. 300) {
    if (my $page = IO::Socket::INET->new("127.0.0.1:9717")) {
        print $page "GET /metrics HTTP/1.0\r\n\r\n";
        print <$page>;
        exit;
    }
    select undef, undef, undef, 0.2;
}
die "the exporter does not answer";
"#;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Returns the manifests of this directory, or `None` if kubectl is not installed.
fn rendered(test: &str, directory: &Path) -> Option<String> {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        skipped(test, "kubectl is not installed");
        return None;
    }
    Some(succeed(Command::new("kubectl").arg("kustomize").arg(directory)))
}

/// Returns the objects that the manifests of this directory declare, or `None` if kubectl is not installed.
fn objects(test: &str, directory: &Path) -> Option<Vec<Value>> {
    Some(serde_saphyr::from_multiple(&rendered(test, directory)?).unwrap())
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn containers_have_the_capabilities_of_the_units() {
    let directory = deploy().join("kubernetes");
    let Some(objects) = objects("containers_have_the_capabilities_of_the_units", &directory) else { return };
    let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"];
    let containers = [(&pod["initContainers"][0], "hotcc.service"), (&pod["containers"][0], "hotcc-exporter.service")];
    for (container, unit) in containers {
        let unit = fs::read_to_string(deploy().join(unit)).unwrap();
        let allowed = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
        let allowed: Vec<&str> =
            allowed.split(' ').map(|capability| capability.strip_prefix("CAP_").unwrap()).collect();
        let security = &container["securityContext"];
        assert_eq!(texts(&security["capabilities"]["add"]), allowed, "{container}");
        assert_eq!(
            (texts(&security["capabilities"]["drop"]), &security["privileged"]),
            (vec!["ALL".into()], &Value::Null)
        );
    }
}

/// The containers' root file system is read-only, so commands write to directories of the node.
#[test]
fn containers_can_write_where_commands_do() {
    let directory = deploy().join("kubernetes");
    let Some(objects) = objects("containers_can_write_where_commands_do", &directory) else { return };
    let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    for container in [&pod["initContainers"][0], &pod["containers"][0]] {
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        let mounts = container["volumeMounts"].as_array().unwrap();
        for path in ["/sys/fs/bpf", "/run/hotcc", "/var/lib/hotcc"] {
            let mount = mounts.iter().find(|mount| mount["mountPath"] == path && mount["readOnly"].is_null());
            let mount = mount.unwrap_or_else(|| panic!("{path} is not writable: {container}"));
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            assert_eq!(volume["hostPath"]["path"], path);
        }
    }
}

/// Python's package has the schemas of Kubernetes' API; here, fields that they do not have are errors.
#[test]
#[ignore = "fetches a package for Python: `just test-package`"]
fn kubernetes_knows_every_field_of_the_manifests() {
    const NAME: &str = "kubernetes_knows_every_field_of_the_manifests";
    let Some(manifests) = rendered(NAME, &deploy().join("kubernetes")) else { return };
    let pip = || {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip"]);
        pip
    };
    if !pip().arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skipped(NAME, "Python's pip is not installed");
    }
    let scratch = tempfile::tempdir().unwrap();
    let (packages, file) = (scratch.path().join("packages"), scratch.path().join("manifests.yaml"));
    succeed(pip().args(["install", "--quiet", "--target"]).arg(&packages).arg("kubernetes-validate==1.37.0"));
    fs::write(&file, manifests).unwrap();
    for release in RELEASES {
        let mut validate = Command::new("python3");
        validate.args(["-m", "kubernetes_validate", "--strict", "--kubernetes-version", release]).arg(&file);
        succeed(validate.env("PYTHONPATH", &packages));
    }
    assert!(MANUAL.contains(&format!("Kubernetes {} or later", RELEASES[0])));
}

/// The kustomization of the manual, over the project's own.
#[test]
fn the_manuals_kustomization_sets_image_and_rules() {
    const RULES: &str = "[[algorithm]]\nobject = 'dtcp'\n";
    let directory = tempfile::tempdir().unwrap();
    let (_, rest) = MANUAL.split_once("```yaml\n").unwrap();
    fs::write(directory.path().join("kustomization.yaml"), rest.split_once("```").unwrap().0).unwrap();
    fs::write(directory.path().join("hotcc.toml"), RULES).unwrap();
    symlink(deploy().join(".."), directory.path().join("hotcc")).unwrap();
    let Some(objects) = objects("the_manuals_kustomization_sets_image_and_rules", directory.path()) else { return };
    let config = of_kind(&objects, "ConfigMap");
    assert_eq!(config["data"]["hotcc.toml"], RULES);
    let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(volumes.iter().any(|v| v["configMap"]["name"] == config["metadata"]["name"]), "{pod}");
    for container in [&pod["initContainers"][0], &pod["containers"][0]] {
        assert_eq!(container["image"], "registry.example/hotcc:0.1.0");
    }
}

/// Returns the command that runs a container of a pod as the kubelet would; the ConfigMap's files are in `/config`.
fn podman(container: &Value, pod: &Value) -> String {
    let mut podman = "podman run --rm --network host --pid host --read-only --cap-drop ALL".to_owned();
    for capability in texts(&container["securityContext"]["capabilities"]["add"]) {
        podman += &format!(" --cap-add {capability}");
    }
    assert_eq!((&pod["hostNetwork"], &pod["hostPID"]), (&true.into(), &true.into()));
    let volumes = pod["volumes"].as_array().unwrap();
    for mount in container["volumeMounts"].as_array().unwrap() {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let host = volume["hostPath"]["path"].as_str().unwrap_or("/config");
        let options = if mount["readOnly"] == true { "ro" } else { "rw" };
        podman += &format!(" --volume {host}:{}:{options}", mount["mountPath"].as_str().unwrap());
    }
    let arguments = texts(&container["args"]).join(" ").replace("$(NODE)", "127.0.0.1");
    format!("{podman} {} {arguments}", container["image"].as_str().unwrap())
}

#[test]
#[ignore = "builds static programs, minutes: `just test-package`"]
fn the_image_applies_a_nodes_rules_and_is_scraped() {
    const NAME: &str = "the_image_applies_a_nodes_rules_and_is_scraped";
    if !debian::can_be_made(NAME, &["musl-gcc"]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    // the manifests with rules of this test
    let directory = scratch.path().join("kubernetes");
    succeed(Command::new("cp").arg("-r").arg(deploy().join("kubernetes")).arg(&directory));
    let rules =
        format!("[[algorithm]]\nobject = 'crest'\n[[policy]]\nport = {SERVICE}\ncongestion_control = 'crest'\n");
    fs::write(directory.join("hotcc.toml"), rules).unwrap();
    let Some(objects) = objects(NAME, &directory) else { return };
    let Some(kernel) = stock_kernel(NAME, "bookworm") else { return };

    let root = systemd::unpack("systemd-sysv,podman", scratch.path());
    fs::create_dir(root.join("config")).unwrap();
    for (file, content) in of_kind(&objects, "ConfigMap")["data"].as_object().unwrap() {
        fs::write(root.join("config").join(file), content.as_str().unwrap()).unwrap();
    }
    let image = root.join("image");
    fs::create_dir(&image).unwrap();
    for program in ["hotcc", "sinr-feeder", "pep-agent"] {
        fs::copy(debian::release_programs().join(program), image.join(program)).unwrap();
    }
    fs::copy(deploy().join("container/Containerfile"), image.join("Containerfile")).unwrap();
    fs::write(image.join("flow.pl"), FLOW.replace("@SERVICE@", &SERVICE.to_string())).unwrap();
    // the root file system is an initramfs: it has no layers, cannot be pivoted, and has no D-Bus
    fs::write(
        root.join("etc/containers/storage.conf"),
        "[storage]\ndriver = 'vfs'\nrunroot = '/run/containers/storage'\ngraphroot = '/var/lib/containers/storage'\n",
    )
    .unwrap();
    fs::write(
        root.join("etc/containers/containers.conf"),
        "[engine]\nno_pivot_root = true\ncgroup_manager = 'cgroupfs'\nevents_logger = 'file'\n",
    )
    .unwrap();

    let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"];
    let script = SCRIPT.replace("@APPLY@", &podman(&pod["initContainers"][0], pod));
    let script = script.replace("@EXPORTER@", &podman(&pod["containers"][0], pod));
    let said = boot(&root, &script, &kernel, scratch.path());
    assert!(said.contains("load algorithm crest") && said.contains("the kernel is as"), "it applies the rules");
    // the rule matches both ends
    for line in [
        "1 MB under crest",
        "hotcc_algorithm_loaded{cc=\"crest\"} 1",
        "hotcc_sockets{cc=\"crest\",version=\"current\"} 2",
        "== end 0",
    ] {
        assert!(said.lines().any(|found| found == line), "no {line}");
    }
}
