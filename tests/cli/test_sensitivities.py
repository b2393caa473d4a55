"""`pufferflow plan --sensitivities`: distances of laws for people and for programs; other noises and bounds by name."""

import pytest
from documented import PARTS

DAY = "2026-11-20"


@pytest.mark.slow
def test_the_table_of_sensitivities(make, give):
    """People see the farthest pair first, and programs all of them under a key that is documented."""
    make()
    told = give("plan", "job.toml", "--period", DAY, "--sensitivities")
    assert told.exit == 0
    assert "Distances between the laws of the answer" in told.out
    head = next(line for line in told.out.splitlines() if "w_inf" in line)
    assert all(
        name in head
        for name in ("first", "second", "w_1", "w_2", "near", "gwm", "gawm", "dagwm", "exact")
    )
    found = give("plan", "job.toml", "--period", DAY, "--sensitivities", "--json").document[
        "sensitivities"
    ]
    assert all(set(row) == set(PARTS["plan", "sensitivities"]) for row in found)
    assert sum(row["decides"] for row in found) == 1
    assert give("plan", "job.toml", "--period", DAY, "--json").document["sensitivities"] is None


def test_another_noise_and_bound_by_name(make, give):
    """A plan may be tried with other names than the file has, and a misspelt one is answered with what was meant."""
    make()
    found = give(
        "plan", "job.toml", "--period", DAY, "--noise", "cauchy", "--bound", "gwm", "--json"
    ).document
    assert {(cell["noise"], cell["bound"]) for cell in found["cells"]} == {
        ("GeneralizedCauchy", "GWM(norm=None)")
    }
    plain = give("plan", "job.toml", "--period", DAY, "--json").document
    assert {cell["noise"] for cell in plain["cells"]} == {"Laplace"}
    assert plain["id"] == found["id"]


@pytest.mark.parametrize(
    ("option", "given", "meant"), [("--noise", "cauchi", "cauchy"), ("--bound", "gavm", "gawm")]
)
def test_misspelt_names_on_the_command_line(make, give, option, given, meant):
    """An error asks what was meant."""
    make()
    told = give("plan", "job.toml", "--period", DAY, option, given)
    assert told.exit == 2
    assert f"Did you mean '{meant}'" in told.err
