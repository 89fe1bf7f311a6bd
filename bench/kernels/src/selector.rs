//! Selection of a kernel: a suite, a series, the newest, or one release.

use super::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A Debian suite that the lab knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suite {
    /// Debian 12, Linux 6.1.
    Bookworm,
    /// Debian 13, Linux 6.12.
    Trixie,
    /// Newer kernels for Debian 13: several series, up to the newest.
    TrixieBackports,
    /// Unstable.
    Sid,
}

impl Suite {
    const ALL: [Self; 4] = [Self::Bookworm, Self::Trixie, Self::TrixieBackports, Self::Sid];

    /// Returns the archive's name of the suite.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::TrixieBackports => "trixie-backports",
            Self::Sid => "sid",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Suite {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|suite| suite.name() == text).ok_or_else(|| Error::Selector(text.into()))
    }
}

/// A processor architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// x86-64.
    #[default]
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Architecture {
    const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Returns Debian's name of the architecture, with which its releases end.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Splits the architecture off the end of a release or selector.
    fn split(text: &str) -> Option<(&str, Self)> {
        let split =
            |architecture: Self| Some((text.strip_suffix(architecture.name())?.strip_suffix('-')?, architecture));
        Self::ALL.into_iter().find_map(split)
    }

    /// Returns the architecture of a release.
    #[must_use]
    pub fn of(release: &str) -> Option<Self> {
        Self::split(release).map(|(_, architecture)| architecture)
    }
}

/// The machines that a kernel was configured for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// Virtual machines: small, without wireless and 9p.
    #[default]
    Cloud,
    /// All machines: has mac80211_hwsim.
    Generic,
}

impl Flavour {
    /// Returns the flavour that a release's name ends with. A generic release must not end like a cloud release.
    fn of(release: &str) -> Option<Self> {
        let (stem, _) = Architecture::split(release)?;
        if stem.ends_with("-cloud") {
            return Some(Self::Cloud);
        }
        // 6.1.0-37 or 6.12.1+deb13; not 6.1.0-37-rt, nor 6.1.0-37-amd64 of a -dbg package
        let numeric = stem.rsplit('-').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()));
        numeric.then_some(Self::Generic)
    }
}

/// The kernel of a flavour that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The newest kernel in Debian's backports.
    Newest,
    /// The newest kernel of a suite.
    Suite(Suite),
    /// The newest kernel of a series such as 6.12, from the first suite in its list that has one.
    Series(u32, u32),
    /// Exactly this release, as in `uname -r`.
    Release(String),
}

/// A kernel as a user names it; parsed from and displayed as `trixie`, `6.12`, `newest`, `6.12-generic`, `6.12-arm64`,
/// `6.12.107+deb13-cloud-amd64`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// The kernel of its flavour.
    pub wanted: Wanted,
    /// The flavour.
    pub flavour: Flavour,
    /// The architecture.
    pub architecture: Architecture,
}

impl Selector {
    /// Returns selectors of the kernels for x86-64 that hotcc supports, oldest first.
    #[must_use]
    pub fn supported() -> Vec<Self> {
        [Wanted::Suite(Suite::Bookworm), Wanted::Suite(Suite::Trixie), Wanted::Series(6, 18), Wanted::Newest]
            .map(|wanted| Self { wanted, flavour: Flavour::Cloud, architecture: Architecture::Amd64 })
            .into()
    }

    /// Returns the suites to search, in this order, until one has the kernel.
    #[must_use]
    pub fn suites(&self) -> Vec<Suite> {
        match &self.wanted {
            Wanted::Newest => vec![Suite::TrixieBackports],
            Wanted::Suite(suite) => vec![*suite],
            Wanted::Series(major, minor) => suites_of((*major, *minor)),
            Wanted::Release(release) => suites_of(series(release).unwrap_or_default()),
        }
    }

    /// Returns whether `release`, found in `suite`, matches the selector.
    #[must_use]
    pub fn accepts(&self, release: &str, suite: Suite) -> bool {
        let wanted = match &self.wanted {
            Wanted::Newest => suite == Suite::TrixieBackports,
            Wanted::Suite(wanted) => *wanted == suite,
            Wanted::Series(major, minor) => series(release) == Some((*major, *minor)),
            Wanted::Release(wanted) => wanted == release,
        };
        wanted && Flavour::of(release) == Some(self.flavour) && Architecture::of(release) == Some(self.architecture)
    }
}

/// Returns the suites that may have a series. Debian keeps one series per release; all others are in backports for a
/// while, and in sid until the next series.
fn suites_of(series: (u32, u32)) -> Vec<Suite> {
    match series {
        (6, 1) => vec![Suite::Bookworm],
        (6, 12) => vec![Suite::Trixie],
        _ => vec![Suite::TrixieBackports, Suite::Sid],
    }
}

/// Returns the series of a release: (6, 12) for 6.12.107+deb13-cloud-amd64 and for 6.12.
#[must_use]
pub fn series(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns whether the text is a release, and so may become the name of a directory. A release has three numbers;
/// 6.12-arm64 is a selector.
fn is_release(text: &str) -> bool {
    series(text).is_some()
        && text.matches('.').count() > 1
        && Flavour::of(text).is_some()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || ".+~-".contains(c))
}

/// Returns the release in the name of a package that is a kernel or its modules; `None` for metapackages and debug
/// symbols.
pub(super) fn release_in<'a>(package: &'a str, prefix: &str) -> Option<&'a str> {
    package.strip_prefix(prefix).filter(|release| is_release(release))
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wanted {
            Wanted::Newest => f.write_str("newest")?,
            Wanted::Suite(suite) => write!(f, "{suite}")?,
            Wanted::Series(major, minor) => write!(f, "{major}.{minor}")?,
            Wanted::Release(release) => return f.write_str(release),
        }
        if self.flavour == Flavour::Generic {
            f.write_str("-generic")?;
        }
        if self.architecture == Architecture::Amd64 { Ok(()) } else { write!(f, "-{}", self.architecture.name()) }
    }
}

impl FromStr for Selector {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if is_release(text) {
            let flavour = Flavour::of(text).unwrap_or_default();
            let architecture = Architecture::of(text).unwrap_or_default();
            return Ok(Self { wanted: Wanted::Release(text.into()), flavour, architecture });
        }
        let (stem, architecture) = Architecture::split(text).unwrap_or((text, Architecture::Amd64));
        let (stem, flavour) = match stem.strip_suffix("-generic") {
            Some(stem) => (stem, Flavour::Generic),
            None => (stem, Flavour::Cloud),
        };
        let wanted = match series(stem) {
            _ if stem == "newest" => Wanted::Newest,
            Some((major, minor)) if stem == format!("{major}.{minor}") => Wanted::Series(major, minor),
            _ => Wanted::Suite(stem.parse().map_err(|_| Error::Selector(text.into()))?),
        };
        Ok(Self { wanted, flavour, architecture })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> Selector {
        text.parse().unwrap()
    }

    #[test]
    fn reads_what_it_prints() {
        for text in [
            "bookworm",
            "trixie-backports",
            "sid-generic",
            "6.12",
            "7.1-generic",
            "newest",
            "newest-generic",
            "6.12-arm64",
            "trixie-generic-arm64",
            "6.1.0-37-amd64",
            "6.1.0-37-cloud-arm64",
            "6.12.107+deb13-cloud-amd64",
        ] {
            assert_eq!(selector(text).to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_kernel() {
        for text in
            ["", "6", "6.", "06.1", "6.12.", "6.12.107", "buster", "-generic", "../../6.1-cloud-amd64", "6.1/x-amd64"]
        {
            let error = text.parse::<Selector>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("unknown kernel `{text}`")), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn takes_series_apart() {
        assert!(selector("6.1").accepts("6.1.0-37-cloud-amd64", Suite::Bookworm));
        assert!(!selector("6.1").accepts("6.12.1+deb13-cloud-amd64", Suite::Trixie));
        assert!(!selector("6.1").accepts("6.1.0-37-amd64", Suite::Bookworm));
        assert!(selector("6.1-generic").accepts("6.1.0-37-amd64", Suite::Bookworm));
        assert!(!selector("6.1-generic").accepts("6.1.0-37-rt-amd64", Suite::Bookworm));
        assert!(!selector("6.1").accepts("6.1.0-37-cloud-arm64", Suite::Bookworm));
        assert!(selector("6.1-arm64").accepts("6.1.0-37-cloud-arm64", Suite::Bookworm));
        assert!(!selector("6.1-arm64").accepts("6.1.0-37-cloud-amd64", Suite::Bookworm));
        assert!(!selector("trixie").accepts("6.18.5+deb13-cloud-amd64", Suite::TrixieBackports));
    }

    #[test]
    fn takes_only_kernels_for_kernels() {
        let release = |package| release_in(package, "linux-image-");
        assert_eq!(release("linux-image-6.1.0-37-cloud-amd64"), Some("6.1.0-37-cloud-amd64"));
        for other in [
            "linux-image-cloud-amd64",
            "linux-image-6.1.0-37-cloud-amd64-dbg",
            "linux-image-6.1.0-37-cloud-amd64-unsigned",
            "linux-image-6.1.0-37-rt-amd64",
            "linux-image-6.1.0-37-686",
            "linux-headers-6.1.0-37-cloud-amd64",
        ] {
            assert_eq!(release(other), None, "{other}");
        }
    }
}
