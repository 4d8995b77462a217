//! rust_std.rs: a Rust program on std: threads, processes, files, channels, sockets, a panic.
//!
//! Hazard: std installs its own alternate stacks and SIGSEGV handler, uses posix_spawn or fork
//! and exec, futexes and vectored I/O; it unwinds through frames that made calls.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::{env, fs, panic, process, thread};

fn main() {
    if env::args().nth(1).as_deref() == Some("child") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).expect("standard input");
        println!("child got {}", text.trim());
        process::exit(21);
    }
    let total = Arc::new(Mutex::new(0u64));
    let barrier = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8u64)
        .map(|index| {
            let (total, barrier) = (total.clone(), barrier.clone());
            thread::spawn(move || {
                barrier.wait();
                for _ in 0..100 {
                    *total.lock().expect("lock") += index;
                    thread::yield_now();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("thread"));
    assert_eq!(*total.lock().expect("lock"), 2800, "sum of the threads");

    let (sender, receiver) = mpsc::channel();
    for index in 0..4 {
        let sender = sender.clone();
        thread::spawn(move || (0..50).for_each(|n| sender.send(index * 50 + n).expect("send")));
    }
    drop(sender);
    assert_eq!(receiver.iter().sum::<i32>(), 19900, "sum through a channel");

    let directory = env::temp_dir().join(format!("rust_std_{}", process::id()));
    fs::create_dir(&directory).expect("create_dir");
    for index in 0..20 {
        fs::write(directory.join(format!("{index}")), vec![index as u8; 1000]).expect("write");
    }
    let bytes: u64 = fs::read_dir(&directory)
        .expect("read_dir")
        .map(|entry| entry.and_then(|entry| entry.metadata()).expect("metadata").len())
        .sum();
    assert_eq!(bytes, 20_000, "bytes in the directory");
    fs::remove_dir_all(&directory).expect("remove_dir_all");

    for _ in 0..5 {
        let mut child = Command::new(env::current_exe().expect("current_exe"))
            .arg("child")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("spawn");
        child.stdin.take().expect("stdin").write_all(b"a line\n").expect("write");
        let output = child.wait_with_output().expect("wait");
        assert_eq!(output.status.code(), Some(21), "exit code of the child");
        assert_eq!(output.stdout, b"child got a line\n", "output of the child");
    }
    assert!(Command::new("/nonexistent/program").spawn().is_err(), "spawn of nothing");

    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("local_addr");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).expect("read");
        stream.write_all(&bytes).expect("write");
    });
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.write_all(b"hello").expect("write");
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).expect("read");
    assert_eq!(&bytes, b"hello", "echo");
    server.join().expect("server");

    panic::set_hook(Box::new(|_| {}));
    let caught = panic::catch_unwind(|| {
        let values = fs::read("/nonexistent/file").expect("no such file");
        values.len()
    });
    assert!(caught.is_err(), "the panic was caught");
    println!("ok rust_std");
}
