//! The image and the Kubernetes manifests: a container with the rights of the DaemonSet applies the node's rules, a
//! connection of the node follows them, and Prometheus' page shows it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_testbed::command::succeed;
use hotcc_testbed::debian;
use hotcc_testbed::http;
use hotcc_testbed::kernel::{exclusive, skipped};
use nix::sys::socket::{getsockopt, sockopt::TcpCongestion};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const IMAGE: &str = "localhost/hotcc:latest";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Returns the objects that the manifests in this directory declare, or `None` if kubectl is not installed.
fn rendered(test: &str, directory: &Path) -> Option<Vec<Value>> {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        skipped(test, "kubectl is not installed");
        return None;
    }
    let text = succeed(Command::new("kubectl").arg("kustomize").arg(directory));
    Some(serde_saphyr::from_multiple(&text).unwrap())
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
    let Some(objects) = rendered("containers_have_the_capabilities_of_the_units", &directory) else { return };
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

/// A container that runs in the background; removed with the value.
struct Running(Child, &'static str);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("podman").args(["rm", "--force", "--time", "2", self.1]).output();
        let _ = self.0.wait();
    }
}

/// Returns the command that runs a container of a pod as the kubelet would; `config` has the ConfigMap's files, `node` is
/// the node's address.
fn podman(container: &Value, pod: &Value, config: &Path, node: &str, name: &str) -> Command {
    let mut podman = Command::new("podman");
    podman.args(["run", "--rm", "--name", name, "--network", "host", "--pid", "host", "--read-only"]);
    // runc, as crun refuses hosts with both versions of cgroups; limits, as podman would raise them
    podman.args([
        "--runtime",
        "runc",
        "--ulimit",
        "nofile=1024:1024",
        "--ulimit",
        "nproc=1024:1024",
        "--cap-drop",
        "ALL",
    ]);
    for capability in texts(&container["securityContext"]["capabilities"]["add"]) {
        podman.args(["--cap-add", &capability]);
    }
    assert_eq!((&pod["hostNetwork"], &pod["hostPID"]), (&true.into(), &true.into()));
    let volumes = pod["volumes"].as_array().unwrap();
    for mount in container["volumeMounts"].as_array().unwrap() {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let host = volume["hostPath"]["path"].as_str().map_or(config, Path::new);
        let options = if mount["readOnly"] == true { "ro" } else { "rw" };
        podman.arg("--volume").arg(format!("{}:{}:{options}", host.display(), mount["mountPath"].as_str().unwrap()));
    }
    podman.arg(container["image"].as_str().unwrap());
    podman.args(texts(&container["args"]).iter().map(|argument| argument.replace("$(NODE)", node)));
    podman
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Unloads what the containers loaded, also if the test fails.
struct Unload(PathBuf);

impl Drop for Unload {
    fn drop(&mut self) {
        let _ = Command::new(&self.0).args(["apply", "/dev/null"]).output();
        let _ = Command::new(&self.0).args(["unload", "--all"]).output();
        let _ = Command::new("podman").args(["image", "rm", "--force", IMAGE]).output();
    }
}

#[test]
#[ignore = "builds static programs, minutes: `just test-package`"]
fn the_image_applies_a_nodes_rules_and_is_scraped() {
    const NAME: &str = "the_image_applies_a_nodes_rules_and_is_scraped";
    if !debian::can_be_made(NAME, &["musl-gcc", "podman", "runc"]) {
        return;
    }
    let Some(_lock) = exclusive(NAME) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let programs = debian::release_programs();
    let _cleanup = Unload(programs.join("hotcc"));
    let mut build = Command::new("podman");
    build.args(["build", "--quiet", "--tag", IMAGE, "--file"]).arg(deploy().join("container/Containerfile"));
    succeed(build.arg(&programs));

    // the manifests with rules of this test
    let directory = scratch.path().join("kubernetes");
    succeed(Command::new("cp").arg("-r").arg(deploy().join("kubernetes")).arg(&directory));
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let node = address.to_string(); // with a port, as the exporter's own may be taken here
    let port = service.local_addr().unwrap().port();
    let rules = format!("[[algorithm]]\nobject = 'crest'\n[[policy]]\nport = {port}\ncongestion_control = 'crest'\n");
    fs::write(directory.join("hotcc.toml"), rules).unwrap();
    let Some(objects) = rendered(NAME, &directory) else { return };
    let config = scratch.path().join("config");
    fs::create_dir(&config).unwrap();
    for (file, content) in of_kind(&objects, "ConfigMap")["data"].as_object().unwrap() {
        fs::write(config.join(file), content.as_str().unwrap()).unwrap();
    }

    fs::create_dir_all("/run/hotcc").unwrap();
    let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"];
    let said = succeed(&mut podman(&pod["initContainers"][0], pod, &config, &node, "hotcc-test-apply"));
    assert!(said.contains("load algorithm crest") && said.contains("the kernel is as"), "{said}");
    let connection = TcpStream::connect(service.local_addr().unwrap()).unwrap();
    assert_eq!(getsockopt(&connection, TcpCongestion).unwrap().to_string_lossy().trim_end_matches('\0'), "crest");

    let mut exporter = podman(&pod["containers"][0], pod, &config, &node, "hotcc-test-exporter");
    let exporter = Running(exporter.stdout(Stdio::null()).spawn().unwrap(), "hotcc-test-exporter");
    let page = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(200));
        Some(http::get(address, "/metrics").ok()?.1)
    });
    let page = page.unwrap();
    // the rule matches both ends
    for line in ["hotcc_algorithm_loaded{cc=\"crest\"} 1", "hotcc_sockets{cc=\"crest\",version=\"current\"} 2"] {
        assert!(page.lines().any(|found| found == line), "no {line} in\n{page}");
    }
    assert!(http::get(address, "/healthz").unwrap().0.starts_with("200 "));
    drop(exporter);
    drop(connection);
}
