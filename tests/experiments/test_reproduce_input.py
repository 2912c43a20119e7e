"""Bad input to `reproduce` is one line and exit code 2, before anything is trained or written."""

import pytest

from wanderlust.train import loop
from wanderlust_experiments import coverage


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("ablation --env nosuch", "unknown environment 'nosuch'"),
        ("ablation --env point --only nosuch", "there is no cell 'nosuch'; a cell is FORM-STATES-CONSTRAINT"),
        ("ablation --env point --only inner-product-step", "there is no cell 'inner-product-step'"),
        ("ablation --env point --all --only inner-product-step-free", "--all and --only exclude each other"),
        ("ablation --env point --recipe nosuch", "no recipe 'nosuch'"),
        ("ablation --recipe fast", "needs a GPU, and JAX sees none; use --recipe laptop, or add --set engine=c"),
        ("ablation --env point --seeds 0", "seeds is 0"),
        ("ablation --env point --budget-steps 0", "--budget-steps is 0"),
        ("ablation --env point --set method.form=normal", "--set method.form: that is what the cells differ in"),
        ("ablation --env point --set skills.kind=discrete", "the grid is of continuous skills"),
        ("ablation --env point --set sac.gamma=1", "there is no field sac.gamma"),
        ("coverage --env nosuch", "unknown environment 'nosuch'"),
        ("coverage --env point --only nosuch", "there is no row 'nosuch'; known: lsd, dads, diayn, visr, vic, smm"),
        ("coverage --env point --only lsd --only lsd-yz", "unknown variant -yz of lsd"),
        ("coverage --env point --only ablation", "reproduce ablation"),
        ("coverage --env point --skills 2 --discrete 4", "--skills and --discrete exclude each other"),
        ("coverage --env point --skills 0", "skills.size is 0"),
        ("coverage --env point --discrete 1", "skills.size is 1"),
        ("coverage --recipe fast", "needs a GPU, and JAX sees none; use --recipe laptop, or add --set engine=c"),
        ("coverage --env point --seeds 0", "seeds is 0"),
        ("coverage --env point --budget-steps 0", "--budget-steps is 0"),
        ("coverage --env point --set method.name=diayn", "--set method.name: that is what the rows differ in"),
        ("coverage --env point --set skills.size=3", "--set skills.size: say it with --skills or --discrete"),
        ("coverage --env point --set method.multiplier=3", "there is no field method.multiplier"),
        ("fetch --env ant", "--env is ant; it must be one of fetch-push, fetch-slide, fetch-pick-and-place"),
        ("fetch --only nosuch", "there is no row 'nosuch'; known: lsd, diayn, dads, lsd+music"),
        ("fetch --only lsd+dads", "--with dads: this reward cannot be added to another's; known: music"),
        ("fetch --set skills.size=3", "--set skills.size=3: the skills of this figure are continuous"),
        ("fetch --set method.name=diayn", "--set method.name: that is what the rows differ in"),
        ("fetch --seeds 0", "seeds is 0"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(command_line, tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    for module, name in ((loop, "run_training"), (coverage, "roll_out_randomly")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("something was trained or measured"))
    code, out, err = command_line("reproduce", *args.split())
    assert (code, out) == (2, "")
    assert err.startswith("wanderlust: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []
