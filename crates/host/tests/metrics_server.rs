//! Tests the daemons' HTTP server with clients that hold connections. They need no root.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail loudly, helpers too")]

use hotcc_host::metrics_server::{self, Pages};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use tokio::runtime::Builder;

/// Maximum time that the server may take for an answer. Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const HOLDERS: usize = 400;
/// The documented maximum of open connections.
const MAX_CONNECTIONS: usize = 64;

struct Large;

impl Pages for Large {
    const NAME: &'static str = "test";
    const HEALTHY: &'static str = "it is";

    /// Returns a page that is larger than a socket's buffers.
    fn metrics(&self) -> Result<String, String> {
        let sample = format!("a_total{{label=\"{}\"}} 1\n", "x".repeat(1000));
        Ok("# HELP a Of a\n# TYPE a counter\n".to_owned() + &sample.repeat(3000) + "# EOF\n")
    }

    fn health(&self) -> Result<String, String> {
        Ok("ok\n".to_owned())
    }
}

/// Starts a server that runs until the test process ends.
fn server() -> SocketAddr {
    let listener = metrics_server::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(metrics_server::serve(listener, Large)).unwrap();
    });
    address
}

fn connect(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // fails if the server has already closed the connection
    let _ = stream.write_all(request.as_bytes());
    stream
}

fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn is_open(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            _ => return false,
        }
    }
}

fn assert_answers(address: SocketAddr) {
    let mut scrape = connect(address, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer(&mut scrape).ends_with("\r\n\r\nok\n"));
}

#[test]
fn clients_that_send_no_request_stop_no_scrape() {
    let address = server();
    for request in ["", "GET /metrics HTTP/1.1\r\nHost: a\r\nX: "] {
        let mut holders: Vec<TcpStream> = (0..HOLDERS).map(|_| connect(address, request)).collect();
        assert_answers(address);
        let open = holders.iter_mut().filter_map(|holder| is_open(holder).then_some(())).count();
        assert!(open <= MAX_CONNECTIONS, "{open} open after {request:?}");
    }
}

#[test]
fn clients_that_read_no_answer_stop_no_scrape() {
    let address = server();
    let ask = |_| connect(address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut holders: Vec<TcpStream> = (0..MAX_CONNECTIONS).map(ask).collect();
    holders.iter_mut().for_each(|holder| holder.read_exact(&mut [0]).unwrap());
    assert_answers(address);
}

#[test]
fn a_request_that_does_not_end_is_closed() {
    let address = server();
    let mut slow = connect(address, "GET /metrics HTTP/1.1\r\nHost: a\r\n");
    assert_eq!(answer(&mut slow), "");
}

#[test]
fn a_long_header_is_refused() {
    let address = server();
    let mut long = connect(address, &format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(8200)));
    let said = answer(&mut long);
    assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
}

#[test]
fn a_connection_serves_one_request() {
    let address = server();
    let mut stream = connect(address, &"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2));
    let said = answer(&mut stream);
    assert!(said.to_lowercase().contains("connection: close\r\n") && said.matches("200 OK").count() == 1, "{said}");
}
