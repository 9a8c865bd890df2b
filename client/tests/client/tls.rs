//! The client against redis-server by TLS, with certificates that openssl makes for the test.
#![cfg(feature = "tls")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use polder_client::{Client, Error};

/// A server, and its certificates in a folder of the test's own.
struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}

fn openssl(folder: &Path, words: &str) -> bool {
    let made = Command::new("openssl")
        .args(words.split(' '))
        .current_dir(folder)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status();
    made.is_ok_and(|status| status.success())
}

/// `None` where redis-server or openssl is not installed, or has no TLS.
fn start(name: &str) -> Option<Server> {
    let folder = std::env::temp_dir().join(format!("polder-client-tls-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).ok()?;
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").ok()?;
    let made = openssl(
        &folder,
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=polder-test-ca",
    ) && openssl(
        &folder,
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost",
    ) && openssl(
        &folder,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names",
    );
    let port = polder_testbase::free_port().ok()?;
    let spawned = Command::new("redis-server")
        .args(["--port", "0", "--tls-port", &port.to_string(), "--save", "", "--tls-cert-file", "server.pem"])
        .args(["--tls-key-file", "server.key", "--tls-ca-cert-file", "ca.pem"])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .spawn();
    let (true, Ok(child)) = (made, spawned) else {
        eprintln!("openssl or redis-server is not installed: not tested");
        return None;
    };
    let server = Server { child, port, folder };
    let until = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "redis-server does not listen for TLS");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(server)
}

impl Server {
    /// The server's own certificate serves as the client's, too.
    fn url(&self) -> String {
        let file = |name: &str| self.folder.join(name).display().to_string();
        format!(
            "rediss://localhost:{}?tls_ca={}&tls_cert={}&tls_key={}",
            self.port,
            file("ca.pem"),
            file("server.pem"),
            file("server.key")
        )
    }
}

#[tokio::test]
async fn calls_and_large_replies_go_by_tls() {
    let Some(server) = start("calls") else { return };
    let by_task = Client::connect(&server.url()).expect("connects");
    let by_thread = Client::connect_in_thread(&server.url()).expect("connects");
    let large = vec![b'x'; 5_000_000];
    for (client, db) in [(by_task, 1), (by_thread, 2)] {
        let calls: Vec<_> = (0..1000).map(|_| client.db(db).incr::<i64>("n")).collect();
        for call in calls {
            call.await.expect("counts");
        }
        client.db(db).set::<()>("large", &large, ()).await.expect("sets");
        assert_eq!(client.db(db).get::<Vec<u8>>("large").await.expect("reads"), large);
        assert_eq!(client.db(db).get::<i64>("n").await.expect("reads"), 1000);
    }
}

#[tokio::test]
async fn a_server_whose_certificate_is_not_trusted_is_refused() {
    let Some(server) = start("trust") else { return };
    let Some(other) = start("other") else { return };
    let url = format!("rediss://localhost:{}?tls_ca={}", server.port, other.folder.join("ca.pem").display());
    let client = Client::connect(&url).expect("reads the URL");
    let by_thread = Client::connect_in_thread(&url).expect("reads the URL");
    for client in [client, by_thread] {
        let begun = Instant::now();
        let error =
            client.db(0).within(Duration::from_secs(30)).get::<Option<String>>("k").await.unwrap_err();
        assert!(
            matches!(&error, Error::NotSent(text) if text.contains("certificate refused") && text.contains("tls_ca")),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
    let missing =
        Client::connect("rediss://localhost?tls_ca=/none.pem").err().expect("there is no such file");
    assert!(missing.to_string().contains("/none.pem"), "{missing}");
}

#[tokio::test]
async fn a_certificate_of_another_host_is_refused_at_once() {
    let Some(server) = start("host") else { return };
    // The certificate names 127.0.0.1 and localhost.
    let client = Client::connect(&server.url().replace("localhost", "127.0.0.2")).expect("reads the URL");
    let error = client.db(0).within(Duration::from_secs(30)).get::<Option<String>>("k").await.unwrap_err();
    assert!(matches!(&error, Error::NotSent(text) if text.contains("certificate refused")), "{error}");
    let unusable = Client::connect(&server.url().replace("localhost", "no_host..name"))
        .err()
        .expect("no certificate has this name");
    assert!(unusable.to_string().contains("no_host..name"), "{unusable}");
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_or_speaks_no_tls_is_told_apart_at_once() {
    let Some(server) = start("client") else { return };
    let url = format!("rediss://localhost:{}?tls_ca={}", server.port, server.folder.join("ca.pem").display());
    let error =
        Client::connect(&url).expect("reads the URL").db(0).get::<Option<String>>("k").await.unwrap_err();
    // The alert may be lost behind the reset of the connection; then the break is told, with the next attempt.
    assert!(!error.to_string().contains("certificate refused"), "{error}");
    let plain = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = plain.local_addr().expect("a port").port();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = plain.accept() {
            let _refused =
                std::io::Write::write_all(&mut socket, b"-ERR unknown command\r\n-ERR unknown command\r\n");
        }
    });
    let url = format!("rediss://localhost:{port}?tls_ca={}", server.folder.join("ca.pem").display());
    let error = Client::connect(&url)
        .expect("reads the URL")
        .db(0)
        .within(Duration::from_secs(30))
        .get::<Option<String>>("k")
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::NotSent(text) if text.contains("does not speak TLS")), "{error}");
}

#[tokio::test]
async fn sentinels_and_their_master_are_reached_by_tls() {
    let Some(mut server) = start("sentinel") else { return };
    let port = polder_testbase::free_port().expect("a port");
    let text = format!(
        "port 0\ntls-port {port}\ntls-replication yes\ntls-cert-file server.pem\ntls-key-file server.key\ntls-ca-cert-file ca.pem\nsentinel monitor main 127.0.0.1 {} 1\n",
        server.port
    );
    std::fs::write(server.folder.join("sentinel.conf"), text).expect("a file");
    let spawned = Command::new("redis-server")
        .args(["sentinel.conf", "--sentinel"])
        .current_dir(&server.folder)
        .stdout(Stdio::null())
        .spawn();
    // The server ends with the test, and then the sentinel, which takes its place in it.
    let _master = Server {
        child: std::mem::replace(&mut server.child, spawned.expect("starts")),
        port: 0,
        folder: PathBuf::new(),
    };
    let until = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "the sentinel does not listen for TLS");
        std::thread::sleep(Duration::from_millis(10));
    }
    let url = server.url().replace(
        &format!("rediss://localhost:{}", server.port),
        &format!("rediss-sentinel://localhost:{port}/main"),
    );
    for client in [
        Client::connect(&url).expect("reads the URL"),
        Client::connect_in_thread(&url).expect("reads the URL"),
    ] {
        client.db(0).set::<()>("k", "v", ()).await.expect("sets");
        assert_eq!(client.db(0).get::<String>("k").await.expect("reads"), "v");
    }
    let other = url.replace("ca.pem", "server.pem");
    let client = Client::connect(&other.replace("localhost", "127.0.0.2")).expect("reads the URL");
    let error = client.db(0).within(Duration::from_secs(30)).get::<Option<String>>("k").await.unwrap_err();
    assert!(matches!(&error, Error::NotSent(text) if text.contains("certificate refused")), "{error}");
}
