//! Cards that HAMi's or KAI's scheduler has chosen before it binds.

use super::*;

const TO_ALLOCATE: &str = "hami.io/vgpu-devices-to-allocate";

/// A node with two cards of 16,000 MiB that HAMi shares.
fn two_cards() -> Value {
    let card = |uuid: &str, index: u32| {
        json!({"id": uuid, "index": index, "count": 10, "devmem": 16_000, "devcore": 100,
            "type": "NVIDIA-T4", "numa": 0, "mode": "hami-core", "health": true})
    };
    let register = json!([card("GPU-a", 0), card("GPU-b", 1)]).to_string();
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "uid": "n",
            "annotations": {"hami.io/node-nvidia-register": register}},
        "status": {"capacity": {"nvidia.com/gpu": 20}, "allocatable": {"nvidia.com/gpu": 20},
            "nodeInfo": {"bootID": "b1"}}})
}

/// A pod that asks for this memory by HAMi's resources.
fn hami_pod(name: &str, version: u64, mib: u64) -> Value {
    let pod = pending(name, version);
    let limits = json!({"nvidia.com/gpu": 1, "nvidia.com/gpumem": mib});
    let pod =
        with(pod, "/spec/containers", json!([{"name": "main", "resources": {"limits": limits}}]));
    with(pod, "/metadata/annotations", json!({}))
}

/// A pod on which HAMi's scheduler has written its choice, at the end of its filter.
fn chosen(mut pod: Value, node: &str, uuid: &str, mib: u64) -> Value {
    let devices = json!(format!("{uuid},NVIDIA,{mib},0:;"));
    let annotations = &mut pod["metadata"]["annotations"];
    annotations["hami.io/vgpu-node"] = json!(node);
    annotations[TO_ALLOCATE] = devices.clone();
    annotations["hami.io/vgpu-devices-allocated"] = devices;
    pod
}

/// The card and the MiB of an admitted pod; the message of a rejection.
fn booked(rig: &mut Rig, pod: &str) -> Result<(String, u64), String> {
    match rig.bind(&binding(pod, "n1")) {
        BindingVerdict::Admitted(admission) => {
            let booking = Booking::decode(&admission.annotations[ALLOCATED]).expect("a booking");
            let device = &booking.containers["main"][0];
            let crate::booking::BookedCard::Device(card) = &device.card else {
                panic!("one card: {booking:?}")
            };
            Ok((card.clone(), device.bytes.unwrap_or_default() >> 20))
        }
        other => Err(message(other)),
    }
}

#[test]
fn a_binding_is_checked_on_the_card_that_hami_has_chosen() {
    let mut rig = Rig::leading(&[two_cards()]);
    // On an empty node either card would do.
    for (index, uuid) in ["GPU-b", "GPU-b", "GPU-a"].into_iter().enumerate() {
        let name = format!("p{index}");
        rig.see(&chosen(hami_pod(&name, 200 + index as u64, 6000), "n1", uuid, 6000));
        assert_eq!(booked(&mut rig, &name), Ok((uuid.to_owned(), 6000)));
    }
    // The card of its choice is full, and the other one has room.
    rig.see(&chosen(hami_pod("full", 300, 6000), "n1", "GPU-b", 6000));
    let rejected = booked(&mut rig, "full").expect_err("GPU-b has 4000 MiB free");
    assert!(rejected.contains("4000 MiB"), "{rejected}");
}

#[test]
fn only_a_choice_for_this_node_counts_and_it_lowers_no_amount() {
    let mut rig = Rig::leading(&[two_cards()]);
    rig.see(&chosen(hami_pod("other", 200, 6000), "n2", "GPU-b", 6000));
    let (_, mib) = booked(&mut rig, "other").expect("there is room");
    assert_eq!(mib, 6000);
    rig.see(&chosen(hami_pod("less", 201, 6000), "n1", "GPU-b", 100));
    let (card, mib) = booked(&mut rig, "less").expect("there is room");
    assert_eq!((card.as_str(), mib), ("GPU-b", 6000));
    rig.see(&chosen(hami_pod("more", 202, 1000), "n1", "GPU-a", 3000));
    assert_eq!(booked(&mut rig, "more"), Ok(("GPU-a".to_owned(), 3000)));
    // Without HAMi's node, a user may have written it.
    let forged = chosen(hami_pod("forged", 203, 1000), "n1", "GPU-b", 1000);
    let mut forged = forged;
    forged["metadata"]["annotations"].as_object_mut().expect("a map").remove("hami.io/vgpu-node");
    assert!(forged["metadata"]["annotations"][TO_ALLOCATE].is_string());
    rig.see(&forged);
    assert_eq!(booked(&mut rig, "forged").expect("there is room").1, 1000);
}

#[test]
fn a_binding_is_checked_on_the_card_of_the_group_that_kai_has_chosen() {
    let reservation = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "gpu-reservation-g2", "namespace": "kai-resource-reservation", "uid": "r",
            "labels": {"runai-gpu-group": "g2"},
            "annotations": {"run.ai/reserve_for_gpu_index": "GPU-b"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running"}});
    let mut rig = Rig::leading(&[two_cards(), reservation]);
    for (name, mib) in [("first", 9000), ("second", 9000)] {
        let pod = with(
            pending(name, 200),
            "/metadata/annotations",
            json!({"gpu-memory": mib.to_string()}),
        );
        rig.see(&with(pod, "/metadata/labels", json!({"kai.scheduler/queue": "q"})));
        let request = json!({"apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
            "metadata": {"name": name, "namespace": "a"},
            "spec": {"podName": name, "selectedNode": "n1", "selectedGPUGroups": ["g2"]}});
        rig.see(&request);
    }
    // Both are announced for the card, on which only one of them fits.
    let first = booked(&mut rig, "first");
    let second = booked(&mut rig, "second");
    let outcomes = [first, second];
    let admitted: Vec<_> = outcomes.iter().filter_map(|one| one.as_ref().ok()).collect();
    assert!(admitted.iter().all(|(card, _)| card == "GPU-b"), "{outcomes:?}");
    assert!(admitted.len() < 2, "{outcomes:?}");
}
