//! A model server without a model, for `docs/tutorial.md`.
//!
//! ```text
//! toy-model-server --port PORT
//! ```
//!
//! It answers every request with a sentence, and like a real model server it needs a moment before
//! it is ready. It uses no GPU: in the tutorial the GPUs are declared, and their memory is booked.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;
use std::{env, io};

/// The time that loading a model would take.
const LOADING: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let port = match &args[..] {
        [flag, port] if flag == "--port" => port.parse(),
        _ => "".parse::<u16>(),
    };
    let Ok(port) = port else {
        eprintln!("usage: toy-model-server --port PORT");
        return ExitCode::from(2);
    };
    println!("loading the model");
    sleep(LOADING);
    match serve(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("toy-model-server: cannot listen on port {port}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("ready on port {port}");
    for stream in listener.incoming() {
        // A client that disconnects early is no reason to stop.
        if let Err(error) = stream.and_then(|stream| answer(&stream)) {
            println!("a request was not answered: {error}");
        }
    }
    Ok(())
}

fn answer(mut stream: &TcpStream) -> io::Result<()> {
    let head = BufReader::new(stream).lines();
    for line in head {
        if line?.is_empty() {
            break;
        }
    }
    let body = "Hello! I am a toy and know nothing.\n";
    let length = body.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}
