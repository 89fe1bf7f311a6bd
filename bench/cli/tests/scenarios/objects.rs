//! Object files as congestion controls: their names, how they are planned, and the errors for invalid files.

use crate::{VALID, error_of};
use hotcc_lab::planner::{check_plans, plan};
use hotcc_lab::scenario::Source;
use hotcc_lab_proto::plan::Action;
use std::fs;
use std::path::Path;

/// Returns [`VALID`] with an object file as the congestion control of its flow.
fn with(cc: &str) -> String {
    VALID.replace("cc = \"dtcp\"\nset = { eta = 2 }", &format!("cc = \"{cc}\""))
}

fn object(name: &str) -> &'static [u8] {
    let of_tests = hotcc_bpf::TEST_OBJECTS.iter().chain(hotcc_bpf::PROGS).chain(hotcc_bpf::ALGOS);
    of_tests.into_iter().find(|o| o.name == name).unwrap().bytes
}

/// Creates a directory with these object files.
fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    directory
}

fn source(directory: &Path, text: String) -> Source {
    Source::parse(&directory.join("x.toml"), text).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn an_object_file_is_loaded_under_the_name_of_its_file() {
    let directory = directory(&[
        ("out/mine.bpf.o", object("stranger")),
        ("new/mine.bpf.o", object("foreign")),
        ("own.o", object("dtcp")),
    ]);
    let swap = "swap = { cc = \"out/mine.bpf.o\", new = \"new/mine.bpf.o\" }";
    let text = with("out/mine.bpf.o").replace("change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }", swap)
        + "[[flow]]\nname = \"other\"\nfrom = \"server\"\nto = \"ue\"\ncc = \"out/mine.bpf.o\"\nset = { fixed_window = 50 }\n"
        + "[[flow]]\nname = \"tagged\"\nfrom = \"server\"\nto = \"ue\"\ncc = \"own\"\nwatch = \"n_q16\"\n"
        + "[[variant]]\nname = \"own\"\ncc = \"own.o\"\nprofile = \"paper\"\n";
    let source = source(directory.path(), text);
    check_plans(&source).unwrap();
    let case = &source.cases().unwrap()[0];
    let planned = plan(&case.scenario, 1, &source.traces()).unwrap();
    let loaded: Vec<_> =
        planned.plan.algorithms.iter().map(|a| (&*a.object, &*a.cc, &*a.profile, a.set.join(" "))).collect();
    let of = |object, cc, profile, set: &str| (object, cc, profile, set.to_owned());
    let expected = [
        of("/objects/1/mine.bpf.o", "mine", "default", ""),
        of("/objects/1/mine.bpf.o", "mine_2", "default", "fixed_window=50"),
        of("/objects/2/own.bpf.o", "own", "paper", ""),
    ];
    assert_eq!(loaded, expected);
    assert!(planned.plan.flows.iter().any(|flow| flow.name == "tagged" && flow.watch.is_some()));
    let swapped = Action::Swap {
        cc: "mine".to_owned(),
        new: "new/mine.bpf.o".to_owned(),
        object: "/objects/0/mine.bpf.o".to_owned(),
    };
    assert_eq!(planned.plan.events[0].action, swapped);
    let files: Vec<_> = planned.objects.iter().map(|o| (o.path.clone(), o.in_guest.as_str())).collect();
    let at = |path: &str| directory.path().join(path);
    let expected = [
        (at("new/mine.bpf.o"), "/objects/0/mine.bpf.o"),
        (at("out/mine.bpf.o"), "/objects/1/mine.bpf.o"),
        (at("own.o"), "/objects/2/own.bpf.o"),
    ];
    assert_eq!(files, expected);
    let named: Vec<&str> = case.scenario.object_files().map(|file| file.get_ref().as_str()).collect();
    assert!(named.contains(&"new/mine.bpf.o") && named.contains(&"own.o"), "{named:?}");
}

/// A report reads the scenario's copy in the result directory, which does not have the object files.
#[test]
fn a_scenario_can_be_read_without_its_object_files() {
    let swept = with("$cc\"\nwatch = \"n_q16")
        .replace("loss = [0.01]", "loss = [0.01]\ncc = [\"a/mine.bpf.o\", \"cubic\"]")
        + "[[expected]]\ncase = { cc = \"mine\" }\nmetric = \"retransmits\"\nvalue = 0\nsource = \"none\"\n";
    let source = Source::parse(Path::new("x.toml"), swept).unwrap_or_else(|why| panic!("{why}"));
    let cases = source.cases().unwrap();
    let names: Vec<String> = cases.iter().map(|case| case.run(1).case_name()).collect();
    assert_eq!(names, ["cc=mine,loss=0.01", "cc=cubic,loss=0.01"]);
    let missing = check_plans(&source).unwrap_err().to_string();
    assert!(missing.starts_with("x.toml:49: object file `a/mine.bpf.o`: cannot read a/mine.bpf.o: "), "{missing}");
}

#[test]
fn conflicting_names_are_reported_with_their_line() {
    let second = "[[flow]]\nname = \"other\"\nfrom = \"server\"\nto = \"ue\"\ncc = ";
    let variant = "[[variant]]\nname = \"mine\"\ncc = \"dtcp\"\n";
    for (text, what) in [
        (with("dtcp.o"), "x.toml:48: `dtcp.o` needs the name `dtcp`, which an algorithm of hotcc has already"),
        (
            with("a/cubic.bpf.o"),
            "x.toml:48: `a/cubic.bpf.o` needs the name `cubic`, which a congestion control of the k",
        ),
        (with("mine.o") + variant, "x.toml:48: `mine.o` needs the name `mine`, which a variant has already"),
        (
            with("a/mine.o") + second + "\"b/mine.o\"\n",
            "x.toml:75: `b/mine.o` needs the name `mine`, which `a/mine.o` has already: rename the file",
        ),
        (
            with("my-cc.o"),
            "x.toml:48: invalid congestion control name `my-cc`: it contains `-`; use letters, digits, `_` and `.`; the \
             lab names an object's congestion control after its file: rename it",
        ),
        (
            with("$cc").replace("loss = [0.01]", "loss = [0.01]\ncc = [\"a/mine.o\", \"b/mine.bpf.o\"]"),
            "x.toml:6: \"a/mine.o\" and \"b/mine.bpf.o\" in `sweep.cc` have the same name, `mine`",
        ),
        (
            VALID.replace("kind = \"udp\"", "kind = \"udp\"\npaced = true"),
            "x.toml:54: `paced` does not apply to a UDP flow",
        ),
    ] {
        let error = error_of(text);
        assert!(error.starts_with(what), "`{error}`, not `{what}`");
    }
}

#[test]
fn errors_in_a_scenario_name_their_line() {
    let program = fs::read("/proc/self/exe").unwrap();
    let directory = directory(&[
        ("text.o", b"int main;"),
        ("program.o", &program[..4096]),
        ("nothing.o", object("probe_nothing")),
        ("cut.o", &object("stranger")[..2000]),
        ("mine.o", object("stranger")),
        ("mine_2.o", object("foreign")),
    ]);
    let with_settings = |settings: &str| with("mine.o").replace("\"mine.o\"", &format!("\"mine.o\"\n{settings}"));
    let second = |cc: &str| format!("[[flow]]\nname = \"other\"\nfrom = \"server\"\nto = \"ue\"\ncc = \"{cc}\"\n");
    for (text, what) in [
        (with("none.o"), "x.toml:48: object file `none.o`: cannot read "),
        (with("text.o"), "text.o is not an ELF file; compile one with `clang -target bpf -g -O2 -c`"),
        (with("program.o"), "program.o is an ELF file, but not a BPF object; compile one with"),
        (
            with("nothing.o"),
            "nothing.o contains no congestion control (no struct_ops table of type tcp_congestion_ops)",
        ),
        (with("cut.o"), "x.toml:48: object file `cut.o`: cannot parse the BPF object "),
        (with_settings("set = { zeta = 1 }"), "x.toml:48: object file `mine.o`: no tunable `zeta`"),
        (with_settings("profile = \"paper\""), "x.toml:48: object file `mine.o`: no profile `paper` in this object"),
        (with_settings("watch = \"mood\""), "x.toml:49: `watch` needs a hotcc algorithm"),
        (
            with_settings("set = { fixed_window = 1 }")
                + &second("mine.o")
                + &second("mine_2.o").replace("other", "third"),
            "`mine_2.o` needs the name `mine_2`, which another flow's congestion control has already",
        ),
        (
            with("mine.o").replace(
                "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
                "swap = { cc = \"mine.o\", new = \"none.o\" }",
            ),
            "x.toml:59: object file `none.o`: cannot read ",
        ),
    ] {
        let error = check_plans(&source(directory.path(), text)).unwrap_err().to_string();
        assert!(error.contains(what), "`{error}`, not `{what}`");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn pacing_can_be_swept() {
    let swept = VALID
        .replace("loss = [0.01]", "loss = [0.01]\npaced = [false, true]")
        .replace("cc = \"dtcp\"\n", "cc = \"dtcp\"\npaced = \"$paced\"\n");
    let source = Source::parse(Path::new("x.toml"), swept).unwrap();
    let cases = source.cases().unwrap();
    let paced = |case: &hotcc_lab::scenario::Case| {
        let flows = plan(&case.scenario, 1, &source.traces()).unwrap().plan.flows;
        (case.values["paced"].clone(), flows.iter().map(|flow| flow.paced).collect::<Vec<_>>())
    };
    let paced: Vec<_> = cases.iter().map(paced).collect();
    assert_eq!(paced, [("false".to_owned(), vec![false, false]), ("true".to_owned(), vec![true, false])]);
}
