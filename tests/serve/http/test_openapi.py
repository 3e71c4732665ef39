"""Requests made up from the OpenAPI description: no answer breaks what the description says, and none is a server error."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from mnemon.serve.http.app import app
from mnemon.serve.http.gate import token_of
from mnemon.serve.http.models import Models
from serving import SMALL, TOKEN


@pytest.mark.parametrize("examples", [6, pytest.param(150, marks=pytest.mark.slow)])
def test_answers_are_as_described(tmp_path, examples, monkeypatch):
    monkeypatch.setattr("mnemon.serve.http.app.WAIT", 0.2)  # some ask for positions that never come
    models = Models(tmp_path / "model", options=SMALL, device="cpu")
    models.get("model").learn([[0.0, 1.0], [5.0, 6.0]], ["a", "b"])
    own = {"Authorization": f"Bearer {TOKEN}", "Host": "127.0.0.1"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", app(models, [token_of(TOKEN)], rate=1e9), headers=own)
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) >= 12
    checks = [not_a_server_error, content_type_conformance, response_schema_conformance]
    for operation in operations:

        @given(case=operation.as_strategy(), real=st.booleans())
        @settings(
            max_examples=examples,
            phases=[Phase.generate],
            derandomize=True,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        def ask(case, real):
            if real and "m" in (case.path_parameters or {}):
                case.path_parameters["m"] = "model"
            if case.path.endswith("/events"):
                case.query = {**(case.query or {}), "follow": False}  # else it has no end
            answer = case.call(headers=own)
            assert answer.status_code in (503, 504) or answer.status_code < 500, answer.text
            case.validate_response(answer, checks=checks[1:] if answer.status_code >= 500 else checks, headers=own)

        ask()
    models.close()
