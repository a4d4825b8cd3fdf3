"""Which test proves which row of the acceptance table of the diagnosis guide ("it says which backend, and why"). A row is
named by the test that shows its words over real sockets; more tests of the same promise stand behind it. Rows L are the
panel's.

Where row and design differ, the design is tested: C3 ends with 2; F1's token is `deadline`, F7's word `truncated`; I3 has
no 401, J2 no `ready_policy`; A4 reads on for 2 s; H6 has the seconds in the note; N1 uses SeaweedFS, versitygw and
minio-go for MinIO and mc."""
import ast

import pytest

from conftest import ROOT

E2E = "../e2e/s3/"
ROWS = {
    # A: while a backend is down
    "A1": ["test_acceptance_gate::test_A1_fast_503_names_backend_and_cause",
           "test_gated::test_every_method_gets_its_503_at_once_and_nobody_is_asked"],
    "A2": ["test_acceptance_gate::test_A2_no_misleading_404_or_empty_list", "test_gated::test_no_misleading_answer"],
    "A3": ["test_acceptance_gate::test_A3_isolation", "test_gated::test_the_other_bucket_does_not_notice"],
    "A4": ["test_acceptance_gate::test_A4_put_is_refused_before_the_body",
           "test_gated::test_without_expect_the_answer_comes_before_the_body_and_survives_it",
           "test_gated::test_a_terabyte_is_not_read"],
    # B: boot
    "B1": ["test_acceptance_gate::test_B1_probe_at_boot", "test_boot::test_backends_are_probed_side_by_side"],
    "B2": ["test_acceptance_gate::test_B2_all_failed_exits_1", "test_boot::test_all_fail_and_it_ends_with_1"],
    "B3": ["test_acceptance_gate::test_B3_warn_and_off", "test_boot::test_warn_runs_and_answers_503"],
    "B4": ["test_acceptance_gate::test_B4_erroring_does_not_stop_a_boot"],
    # C: apply
    "C1": ["test_acceptance_gate::test_C1_probe_on_apply",
           "test_apply::test_a_refused_connection_refuses_the_apply_and_nothing_changes"],
    "C2": ["test_acceptance_gate::test_C2_only_changed_definitions_are_probed",
           "test_apply::test_what_an_accepted_apply_asked_is_not_asked_again"],
    "C3": ["test_acceptance_gate::test_C3_fatal_configuration_has_one_text"],
    "C4": ["test_acceptance_gate::test_C4_same_cause_string", "test_one_cause::test_a_fault_that_blocks",
           "test_one_cause::test_a_fault_that_only_shows", "test_one_cause::test_a_controller_says_the_same"],
    # D: schedule
    "D1": ["test_acceptance_probes::test_D1_every_backend_every_interval",
           "test_probes::test_many_peers_are_probed_evenly"],
    "D2": ["test_acceptance_probes::test_D2_a_new_connection_for_a_new_definition"],
    "D3": ["test_acceptance_probes::test_D3_idle_death_is_found_without_traffic"],
    "D4": ["test_acceptance_probes::test_D4_the_interval_of_the_environment"],
    # E: a failing request
    "E1": ["test_acceptance_probes::test_E1_a_request_triggers_a_probe"],
    "E2": ["test_acceptance_probes::test_E2_a_probe_that_succeeds_leaves_it_open"],
    "E3": ["test_acceptance_probes::test_E3_one_probe_at_a_time",
           "test_acceptance_probes::test_E3_failures_that_go_on_start_a_probe_a_second",
           "test_gated::test_five_hundred_at_once_start_one_probe"],
    # F: hanging and slow
    "F1": ["test_acceptance_probes::test_F1_hang_request"],
    "F2": ["test_acceptance_probes::test_F2_hang_verdict", E2E + "test_verdicts::test_all_hung"],
    "F3": ["test_acceptance_probes::test_F3_upload_deadline"],
    "F4": ["test_acceptance_probes::test_F4_a_slow_client_is_not_the_backend"],
    "F5": ["test_acceptance_probes::test_F5_a_slow_answer_stays_open"],
    "F6": ["test_acceptance_probes::test_F6_one_bad_attempt_is_no_verdict"],
    "F7": ["test_acceptance_probes::test_F7_after_the_first_byte"],
    # G, H: answers
    "G1": ["test_acceptance_probes::test_G1_a_5xx_is_a_badge",
           E2E + "test_verdicts::test_a_store_that_is_dead_behind_living_gateways"],
    "G2": ["test_acceptance_probes::test_G2_slow_down_is_neutral",
           E2E + "test_verdicts::test_real_throttling_is_relayed_and_blames_nobody"],
    "H1": ["test_acceptance_probes::test_H1_bad_keys", E2E + "test_verdicts::test_rejected_keys"],
    "H2": ["test_acceptance_probes::test_H2_a_scoped_key",
           E2E + "test_verdicts::test_a_key_that_may_not_ask_for_the_bucket"],
    "H3": ["test_acceptance_probes::test_H3_head_bucket_is_enough"],
    "H4": ["test_acceptance_probes::test_H4_no_routed_bucket"],
    "H5": ["test_acceptance_probes::test_H5_an_absent_bucket", E2E + "test_verdicts::test_an_absent_bucket"],
    "H6": ["test_acceptance_probes::test_H6_clock_region_redirect",
           E2E + "test_verdicts::test_a_late_clock_is_not_bad_keys"],
    "H7": ["test_acceptance_probes::test_H7_keyless", E2E + "test_verdicts::test_no_keys_prove_reachability_only"],
    # I: recovery, Test connection
    "I1": ["test_acceptance_probes::test_I1_recovery", "test_probe_effects::test_recovery"],
    "I2": ["test_acceptance_probes::test_I2_test_connection_reopens_at_once"],
    "I3": ["test_acceptance_probes::test_I3_errors_of_the_probe_api", "test_admin_api::test_probe_of_nobody"],
    "I4": ["test_acceptance_vantage::test_I4_probe_runs_in_the_pod",
           "test_control_verdicts::test_what_only_the_controller_cannot_reach_stays_open_and_both_sides_say_so"],
    # J: readiness
    "J1": ["test_acceptance_show::test_J1_ready", "test_acceptance_show::test_J1_ready_while_every_backend_hangs"],
    "J2": ["test_acceptance_show::test_J2_readiness_code", "test_admin_api::test_ready_words"],
    "J3": ["test_acceptance_show::test_J3_namespace", "test_admin_api::test_the_data_listener_has_none_of_it"],
    # K: slow requests, histogram
    "K1": ["test_acceptance_show::test_K1_the_slow_line"],
    "K2": ["test_acceptance_show::test_K2_a_retry_is_visible"],
    "K3": ["test_acceptance_show::test_K3_a_queue_is_visible"],
    "K4": ["test_acceptance_show::test_K4_uploads_have_an_allowance"],
    "K5": ["test_acceptance_show::test_K5_secrets_of_the_query", "test_logs_metrics::test_signatures_are_masked_everywhere"],
    "K6": ["test_acceptance_show::test_K6_the_histogram"],
    # M: stale, removed, open, cost
    "M1": ["test_acceptance_show::test_M1_a_verdict_of_an_old_definition_gates_nobody",
           "test_control_verdicts::test_a_verdict_of_another_definition_is_forgotten"],
    "M2": ["test_acceptance_show::test_M2_a_backend_that_is_removed"],
    "M3": ["test_acceptance_show::test_M3_never_probed_flows", "test_acceptance_show::test_M3_a_controller_that_is_gone",
           "test_control_verdicts::test_without_the_controller_its_word_lasts_three_intervals_and_no_longer",
           "test_control_path::test_a_dead_controller_stops_nothing"],
    "M4": ["test_acceptance_show::test_M4_cost_of_the_gate", "test_gated::test_two_system_calls_a_request",
           "test_counting::test_keep_alive_request_costs_four_data_calls_and_no_allocation"],
    # N: with stores and SDKs
    "N1": [E2E + "test_transparency::test_odd_keys", E2E + "test_transparency::test_signatures",
           E2E + "test_transparency::test_aws_chunked", E2E + "test_transparency::test_presigned",
           E2E + "test_course::test_in_calm", "test_transparency::test_targets", "test_transparency::test_fields"],
    "N2": ["test_acceptance_classes::test_N2_retry_classes", "test_field_retries::test_br15_replay_buffer_boundary",
           E2E + "test_classes::test_a_hung_peer_by_class", E2E + "test_zombie::test_a_conditional_write_is_tried_once"],
    "N3": [E2E + "test_sdk_view::test_an_error_in_a_200_passes_untouched",
           E2E + "test_sdk_view::test_sdks_see_the_error_in_a_200"],
    "N4": [E2E + "test_sdk_view::test_our_503_in_boto3"],
}
COUNTS = {"A": 4, "B": 4, "C": 4, "D": 4, "E": 3, "F": 7, "G": 2, "H": 7, "I": 4, "J": 3, "K": 6, "M": 4, "N": 4}


def functions_of(path):
    with open(path, encoding="utf-8") as f:
        return {node.name for node in ast.parse(f.read()).body
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_no_row_lacks_a_test():
    assert set(ROWS) == {f"{letter}{n + 1}" for letter, count in COUNTS.items() for n in range(count)}


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_of_a_row_are_there(row):
    assert ROWS[row]
    for name in ROWS[row]:
        module, _, function = name.partition("::")
        path = ROOT / "tests" / "integration" / f"{module}.py"
        assert path.resolve().is_file() and function in functions_of(path), f"row {row}: {name} is not there"


def test_every_test_that_names_a_row_is_in_its_list():
    for path in sorted((ROOT / "tests" / "integration").glob("test_acceptance_*.py")):
        for function in functions_of(path):
            row = function.split("_")[1]
            if row in ROWS:
                assert f"{path.stem}::{function}" in ROWS[row], f"{path.stem}::{function}"
