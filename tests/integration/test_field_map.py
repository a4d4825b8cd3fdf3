"""Which test proves which report from the field, for those about watching, membership, pushes and probes (the others are
in the test_field_* files by number). Only that the tests are there is checked here."""
import re

import pytest

from conftest import ROOT

E2E, UNIT = "tests/e2e/cluster/", "tests/unit/controller/"
PY = "tests/integration/"
REPORTS = {
    9: [E2E + "test_faults.py::test_a_controller_whose_clock_is_off_by_ten_minutes"],
    25: [E2E + "test_rolling.py::test_rolling_updates",
         E2E + "test_rolling.py::test_pods_that_are_ended_with_grace_answer_what_they_have_begun",
         E2E + "test_rolling.py::test_a_node_that_is_drained"],
    26: [E2E + "test_membership.py::test_what_a_hand_written_slice_says_counts_and_its_end_empties_only_its_part",
         UNIT + "decide/test_slices.c::a_slice_that_goes_is_not_a_service_that_goes"],
    27: [E2E + "test_faults.py::test_an_api_server_that_is_away_and_returns",
         E2E + "test_faults.py::test_etcd_that_is_away_and_returns",
         UNIT + "kube/test_kube_watch.c::a_list_that_is_cut_is_not_in_force"],
    28: [E2E + "test_faults.py::test_an_api_server_that_hangs",
         UNIT + "kube/test_kube_watch.c::silence_is_a_new_watch_on_another_connection_not_a_list",
         UNIT + "decide/test_watch_plan.c::the_third_silent_stall_in_a_row_lists"],
    29: [E2E + "test_faults.py::test_versions_that_have_all_expired",
         UNIT + "kube/test_kube_watch.c::an_expired_event_is_a_new_list_and_its_status_gives_no_version",
         UNIT + "decide/test_watch_plan.c::an_expired_list_is_asked_for_without_a_version"],
    30: [E2E + "test_faults.py::test_a_token_that_is_refused_and_its_successor",
         UNIT + "kube/test_kube_access.c::the_token_is_read_again_once_a_minute_and_on_demand"],
    31: [E2E + "test_rights.py::test_each_right_has_an_effect_and_its_lack_is_said_and_healed"],
    32: [PY + "test_cluster_source.py::test_br32_a_controller_that_starts_pushes_no_partial_world"],
    33: [PY + "test_control_path.py::test_another_hash_is_pushed_over_once_and_told_once",
         PY + "test_control_path.py::test_a_pair_that_is_not_higher_is_refused_and_told_what_is_in_force",
         PY + "test_control_path.py::test_a_wiped_sidecar_is_filled_again_within_an_interval",
         UNIT + "decide/test_push_plan.c::whatever_happens_all_end_up_with_the_newest"],
    34: [UNIT + "decide/test_slices.c::nothing_said_means_ready",
         E2E + "test_membership.py::test_a_pod_that_is_not_ready_or_ends_is_the_last_resort"],
    35: [UNIT + "decide/test_slices.c::of_a_reused_address_the_live_one_counts_whatever_is_newer",
         PY + "test_cluster_source.py::test_a_pod_that_takes_another_ones_place_starts_anew",
         PY + "test_control_path.py::test_what_is_signed_for_another_path_pod_or_by_another_key_is_refused"],
    52: [PY + "test_probes.py::test_many_peers_are_probed_evenly",
         PY + "test_probe_effects.py::test_green_probe_opens_when_nobody_is_usable"],
    53: [PY + "test_probes.py::test_answers_of_a_store", PY + "test_probes.py::test_a_named_bucket_and_a_named_host"],
    54: [PY + "test_probes.py::test_second_attempt_is_on_a_fresh_connection",
         PY + "test_probes.py::test_peer_that_closes_idle_connections"],
}


@pytest.mark.parametrize("number", sorted(REPORTS))
def test_the_proof_of_a_report_is_there(number):
    for place in REPORTS[number]:
        path, name = place.split("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(def|static void) {name}\(", text, re.M), f"BR-{number}: {place} is not there"
