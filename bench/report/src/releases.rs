//! Kernel releases as names of directories of results: `6.12.117+deb13-cloud-amd64`.

use std::path::Path;

const ARM64: &str = "-arm64";

/// Returns the numbers that a release begins with, so that 6.12.95 comes before 6.12.117.
pub(crate) fn numbers(release: &str) -> Vec<u32> {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    release[..end].split('.').map_while(|number| number.parse().ok()).collect()
}

/// Returns the name of the kernel (or the simulator) whose results a directory contains.
pub(crate) fn name_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the names of all kernels, each once, for a heading.
pub(crate) fn joined(names: impl IntoIterator<Item = String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique.join(", ")
}

/// Returns what directories of results are sorted by: older releases come first.
pub(crate) fn order(directory: &Path) -> (Vec<u32>, String) {
    let name = name_of(directory);
    (numbers(&name), name)
}

/// Returns whether a release is of another architecture than amd64.
pub(crate) fn is_arm64(release: &str) -> bool {
    release.ends_with(ARM64)
}

/// Returns whether results of `release` are meant by `wanted`: a series such as `6.12` or `6.12-arm64`, or the beginning
/// of a name without numbers, such as `simulator`.
pub(crate) fn is_of(release: &str, wanted: &str) -> bool {
    let series = numbers(wanted);
    if series.is_empty() {
        return release.starts_with(wanted);
    }
    numbers(release).starts_with(&series) && is_arm64(release) == is_arm64(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert!(numbers("6.12.95+deb13-cloud-amd64") < numbers("6.12.117+deb13-cloud-amd64"));
        assert_eq!(numbers("6.1.0-37-amd64"), [6, 1, 0]);
        assert!(numbers("simulator").is_empty());
    }

    #[test]
    fn a_series_is_meant_whole_and_for_one_architecture() {
        assert!(
            is_of("6.12.117+deb13-cloud-amd64", "6.12") && is_of("6.1.9", "6.1") && is_of("simulator", "simulator")
        );
        assert!(!is_of("6.18.1", "6.1") && !is_of("6.12.117+deb13-arm64", "6.12"));
        assert!(is_of("6.12.117+deb13-arm64", "6.12-arm64"));
    }
}
