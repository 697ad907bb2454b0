//! The request that makes a server load its model. It has a thread of its own, so that the slot can be stopped meanwhile.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How much of an answer is kept: enough for a sentence.
const MOST_SAID: u64 = 1 << 10;

/// A model that is being loaded.
pub(crate) struct Loading(JoinHandle<Result<(), String>>);

impl Loading {
    /// Asks for it, and waits for so long.
    pub(crate) fn begin(address: SocketAddr, path: &str, body: String, within: Duration) -> Self {
        let path = path.trim_start_matches('/').to_owned();
        Loading(thread::spawn(move || match ask(address, &path, &body, within) {
            Ok(answer) if is_200(&answer) => Ok(()),
            Ok(answer) => Err(format!("its model was not loaded: {}", said(&answer))),
            Err(error) => Err(format!("its model was not loaded: {error}")),
        }))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    /// What came of it; waits where it is not over.
    pub(crate) fn outcome(self) -> Result<(), String> {
        self.0
            .join()
            .unwrap_or_else(|_| Err("its model was not loaded: nobody knows why".to_owned()))
    }
}

fn ask(address: SocketAddr, path: &str, body: &str, within: Duration) -> io::Result<String> {
    let within = within.max(Duration::from_secs(1));
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    let length = body.len();
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.take(MOST_SAID).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn is_200(answer: &str) -> bool {
    answer.starts_with("HTTP/1.") && answer.get(8..12) == Some(" 200")
}

/// The first line of an answer, and what it says.
fn said(answer: &str) -> String {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().unwrap_or("no answer");
    format!("{status} {}", body.trim()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::io::BufReader;
    use std::net::TcpListener;

    use super::*;

    /// What comes of a request that is answered so, and the request.
    fn answered(answer: &'static str) -> (Result<(), String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).expect("a line");
            }
            let mut body = [0; 7];
            reader.read_exact(&mut body).expect("the body");
            stream.write_all(answer.as_bytes()).expect("it listens");
            head + &String::from_utf8_lossy(&body)
        });
        let loading = Loading::begin(
            address,
            "/api/generate",
            r#"{"a":1}"#.to_owned(),
            Duration::from_secs(5),
        );
        (loading.outcome(), server.join().expect("the server ends"))
    }

    #[test]
    fn a_model_is_loaded_once_its_server_says_so() {
        let (outcome, asked) = answered("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        assert_eq!(outcome, Ok(()));
        assert!(asked.starts_with("POST /api/generate HTTP/1.1\r\n"), "{asked}");
        assert!(
            asked.ends_with(r#"{"a":1}"#) && asked.contains("Content-Length: 7\r\n"),
            "{asked}"
        );
    }

    #[test]
    fn a_model_that_is_not_loaded_says_why() {
        let (outcome, _) =
            answered("HTTP/1.1 404 Not Found\r\n\r\n{\"error\":\"model 'q' not found\"}");
        let why =
            "its model was not loaded: HTTP/1.1 404 Not Found {\"error\":\"model 'q' not found\"}";
        assert_eq!(outcome, Err(why.to_owned()));
    }
}
