//! Comparison of the versions of Debian packages (Debian Policy 5.6.12).

use debversion::Version;
use std::cmp::Ordering;

/// Compares two versions, `EPOCH:UPSTREAM-REVISION`; an invalid version is older than every valid one.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let [a, b] = [a, b].map(|version| version.parse::<Version>().ok());
    a.cmp(&b)
}

#[cfg(test)]
mod tests {
    use super::compare;
    use std::cmp::Ordering;

    #[test]
    fn orders_as_dpkg_does() {
        let ascending = [
            "6.1.0~rc7-1",
            "6.1.9-1",
            "6.1.140-1~bpo11+1",
            "6.1.140-1",
            "6.1.140-1+b1",
            "6.1.140-10",
            "6.12~rc1",
            "6.12",
            "6.12.9-1~bpo12+1",
            "6.12.9-1",
            "6.12.9a-1",
            "6.12.9+deb13-1",
            "7.0.1-1",
            "1:1.0",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} against {b}");
            }
        }
        assert_eq!(compare("6.012-1", "6.12-01"), Ordering::Equal);
    }
}
