#[path = "../benches/fleet/mod.rs"]
mod fleet;
fn main() {
    let ledger = fleet::fleet(1000);
    let policy = plimsoll_core::policy::Policy::pack();
    let gib = std::env::args().nth(1).map_or(40, |s| s.parse().unwrap());
    let request = fleet::request("new", gib);
    let mut times = vec![];
    for _ in 0..20 {
        let t = std::time::Instant::now();
        let d = plimsoll_core::decide::decide(&ledger, &policy, &request);
        times.push(t.elapsed());
        std::hint::black_box(&d);
    }
    times.sort();
    println!("{:?} min {:?} med", times[0], times[10]);
}
