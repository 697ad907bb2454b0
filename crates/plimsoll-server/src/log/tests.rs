//! The log of the incident of the README, compared with a stored one. `UPDATE_GOLDEN=1` rewrites
//! it.

use std::fs;
use std::path::Path;

use plimsoll_core::policy::Policy;

use super::*;
use crate::rehearsal::Rehearsal;

/// Three models in the order of the incident on two GPUs of 80 GiB, packed.
fn incident(format: LogFormat) -> String {
    let mut log = DecisionLog::new(format, Vec::new());
    let mut world = Rehearsal::new(Policy::pack(), &[80, 80]);
    let models =
        [("large", 79_982_566_400_u64), ("small", 15_767_897_088), ("medium", 41_875_931_136)];
    for (model, memory) in models {
        world.model(model, &format!("memory: {memory}"));
        world.reserve(model);
        world.show(&mut [&mut log]);
        world.pass(1000);
        world.beat(&[]);
    }
    String::from_utf8(log.out).expect("logs are UTF-8")
}

fn check(name: &str, said: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, said).expect("golden files can be written");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == said, "{} differs; it says now:\n{said}", path.display());
}

#[test]
fn e5_the_log_of_the_incident_is_the_stored_one() {
    check("a2.log-decisions.txt", &incident(LogFormat::Text));
    check("a2.log-decisions.jsonl", &incident(LogFormat::Json));
}

#[test]
fn e5_the_memory_before_a_decision_is_the_memory_after_the_previous_one() {
    let log = incident(LogFormat::Json);
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |code: &str| -> Vec<&Value> {
        lines
            .iter()
            .filter(|line| line["code"] == code)
            .map(|line| &line["allocated_per_gpu"])
            .collect()
    };
    let (before, after) = (of("memory_before_slot_creation"), of("memory_after_slot_creation"));
    assert_eq!((before.len(), after.len()), (3, 3));
    assert_eq!(before[1..], after[..2]);
    // 74.490 and 53.685 GiB: never 89.175 or 128.175 on one.
    assert_eq!(
        *after[2],
        serde_json::json!({"GPU-0": 79_982_566_400_u64, "GPU-1": 57_643_828_224_u64})
    );
    for line in &lines {
        for name in [
            "decision",
            "model",
            "node",
            "device",
            "revision",
            "total",
            "held",
            "releasing",
            "foreign",
            "used",
            "allocated",
            "requested",
            "free",
            "fits",
        ] {
            assert!(line.get(name).is_some(), "{name} is not in {line}");
        }
    }
}

/// Returns the log of a closure.
fn logged(work: impl FnOnce()) -> String {
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);
    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panicked").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let kept = Buffer::default();
    let to = kept.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
    tracing::subscriber::with_default(log, work);
    let bytes = kept.0.lock().expect("no writer panicked").clone();
    String::from_utf8(bytes).expect("logs are UTF-8")
}

#[test]
fn c10_a_breach_is_logged_as_an_error_once_and_its_end_is_logged() {
    let mut world = Rehearsal::new(Policy::pack(), &[80]);
    let mut log = BreachLog::default();
    world.model("m", "memory: 40GiB");
    world.reserve("m");
    world.beat(&[0]);
    let gib = crate::rehearsal::GIB;
    let said = logged(|| {
        world.show(&mut [&mut log]);
        world.beat(&[90 * gib]);
        world.show(&mut [&mut log]);
        world.beat(&[91 * gib]);
        world.show(&mut [&mut log]);
        world.beat(&[40 * gib]);
        world.show(&mut [&mut log]);
    });
    assert_eq!(said.matches("ERROR").count(), 1, "{said}");
    assert!(
        said.contains("GPU-0 on runner-1 holds 90.0 GiB of 80.0 GiB, over by 10.0 GiB"),
        "{said}"
    );
    assert_eq!(said.matches("breach is over").count(), 1, "{said}");
}

#[test]
fn e5_every_code_of_slots_and_of_pods_is_logged() {
    let mut log = DecisionLog::new(LogFormat::Text, Vec::new());
    let mut world = Rehearsal::new(Policy::pack(), &[80, 80]);
    for (model, rest) in [
        ("split", "memory: 60GiB\ngpus: 2"),
        ("single", "memory: 20GiB"),
        ("large", "memory: 70GiB"),
    ] {
        world.model(model, rest);
        world.reserve(model);
        world.show(&mut [&mut log]);
        world.pass(1000);
        world.beat(&[]);
    }
    world.reserve("large");
    world.show(&mut [&mut log]);
    let log = String::from_utf8(log.out).expect("logs are UTF-8");
    for code in [
        "calculating_allocated_memory",
        "single_gpu_slot_found",
        "multi_gpu_slot_found",
        "memory_calculation_result",
        "gpu_allocation_start",
        "gpu_selected",
        "single_gpu_validation",
        "multi_gpu_validation",
        "memory_before_slot_creation",
        "memory_after_slot_creation",
        "allocation_success",
        "allocation_failed",
    ] {
        assert!(log.contains(&format!(" OVERSCHEDULING_DEBUG {code} ")), "{code} in\n{log}");
    }
    for code in ["GPU_FILTER", "GPU_FIT_CHECK", "IDLE_CHECK", "RESOURCE_CHECK", "GPU_SELECT"] {
        assert!(log.contains(&format!(" [{code}] ")), "{code} in\n{log}");
    }
    let found = log.lines().find(|line| line.contains("multi_gpu_slot_found")).expect("a slot");
    assert!(found.contains("slot=split/slot-1"), "{found}");
    assert!(found.contains("memory_per_gpu={GPU-0:32212254720,GPU-1:32212254720}"), "{found}");
}
