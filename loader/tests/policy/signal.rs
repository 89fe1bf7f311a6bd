//! Rules on the radio signal of the link to the peer.

use crate::both;
use crate::fed::Fed;
use crate::ruled::Ruled;

#[test]
fn the_signal_of_the_link_to_the_peer_decides() {
    let Some(ruled) = Ruled::new("the_signal_of_the_link_to_the_peer_decides") else { return };
    let default = ruled.ns.sh("cat /proc/sys/net/ipv4/tcp_congestion_control");
    ruled.apply(&[
        "signal = 'above 5'\ncongestion_control = 'po_dtcp'",
        "signal = 'below -2.5'\ncongestion_control = 'po_west'",
        "signal = 'known'\ncongestion_control = 'reno'",
    ]);
    let max_age_ms = 20_000; // a test on a busy machine may be slow
    let fed = Fed::new("10.2.3.1/32", max_age_ms);
    let at = || ruled.at("10.2.3.1:0");
    assert_eq!(at(), both(&default), "no reading");
    for (average_db, cc) in [(5.5, "po_dtcp"), (5.0, "reno"), (-2.5, "reno"), (-3.0, "po_west")] {
        fed.publish(20.0, average_db, 0); // the average decides, not the newest reading
        assert_eq!(at(), both(cc), "{average_db} dB");
    }
    assert_eq!(ruled.at("10.2.0.1:0"), both(&default), "a peer without a link");
    fed.publish(20.0, 20.0, max_age_ms + 1);
    assert_eq!(at(), both(&default), "the reading is too old");
    fed.publish(20.0, 20.0, 0);
    assert_eq!(at(), both("po_dtcp"));
    drop(fed);
    assert_eq!(at(), both(&default), "the link was removed");
}
