"""Six clinics and four hospitals: who holds what, and what one argument changes."""

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.worlds.cases import CLINICS
from fedlab_mini.worlds.data.heart import HOSPITALS

DIGITS = fm.load("digits")
ALDER, BIRCH, CEDAR, DAMSON, ELM, FIR = range(6)


def images(x):
    """The places of images in scikit-learn's digits, none of which is there twice."""
    found = (x[:, None] == DIGITS.x).all(2)
    assert (found.sum(1) == 1).all()
    return found.int().argmax(1)


@pytest.mark.parametrize("seed", range(3))
def test_every_clinic_is_what_its_note_says(seed):
    fed = fm.six_clinics(seed)
    held = [images(fed.client(k)[0]) for k in range(6)]
    right = [DIGITS.y[places] for places in held]
    assert fed.names == CLINICS
    assert fed.sizes.tolist() == [300, 60, 150, 150, 150, 150]
    rare = [int((labels >= 8).sum()) for labels in right]
    assert rare == [0, 0, 90, 0, 0, 0]
    wrong = [int((fed.client(k)[1] != right[k]).sum()) for k in range(6)]
    assert wrong == [0, 0, 0, 75, 0, 0]
    assert fed.noise.tolist() == [0, 0, 0, 0.5, 0, 0]
    assert held[ELM].equal(held[ALDER][:150])
    others = torch.cat([held[k] for k in range(6) if k != ELM])
    server = torch.cat([images(fed.validation[0]), images(fed.test[0])])
    assert len(others.unique()) == len(others) == 810
    assert len(server.unique()) == 720
    assert not torch.isin(others, server).any()
    assert fed.corrupted == {DAMSON, FIR}
    assert len(fed.validation[1]) == 360
    net = fm.mlp(64, 32, 10)
    updates = fm.local_updates(fed, net, net.init(seed), torch.arange(6))
    lengths = updates.norm(dim=1)
    assert lengths[FIR] < 0.06 < lengths[BIRCH]  # 2,410 parameters x .001 of noise: .049


def same(one, other):
    """The clinics whose samples are the same in both federations."""
    pairs = ((one.client(k), other.client(k)) for k in range(6))
    return [k for k, (a, b) in enumerate(pairs) if len(a[1]) == len(b[1]) and a[0].equal(b[0])]


def test_an_argument_changes_one_clinic():
    fed = fm.six_clinics()
    larger = fm.six_clinics(alder=400)
    assert same(fed, larger) == [1, 2, 3, 4, 5]
    assert int(larger.sizes[ALDER]) == 400
    careful = fm.six_clinics(damson=0.0)
    assert careful.corrupted == {FIR}
    assert "clean" in repr(careful).splitlines()[1 + DAMSON]
    worse = fm.six_clinics(damson=0.8)
    assert (worse.client(DAMSON)[1] != careful.client(DAMSON)[1]).sum() == 120
    own = fm.six_clinics(elm_copies=False)
    assert same(fed, own) == [0, 1, 2, 3, 5]
    assert not torch.isin(images(own.client(ELM)[0]), images(own.client(ALDER)[0])).any()
    busy = fm.six_clinics(fir_trains=True)
    assert same(fed, busy) == [*range(6)]
    assert busy.corrupted == {DAMSON}
    assert same(fed, fm.six_clinics(1)) == []


def test_what_copies_must_train():
    with pytest.raises(ValueError, match=r"^elm_copies: expected True"):
        fm.six_clinics(elm_copies=False, fir_trains=True)


def test_clinics_and_hospitals_say_who_is_who():
    lines = repr(fm.six_clinics()).splitlines()
    assert lines[0].startswith("Federation(six clinics: 6 clients x 60-300 samples, 10 classes")
    assert lines[1 + CEDAR].split() == [
        *("2", "Cedar", "150", "samples", "rare:", "90", "eights", "and", "nines,", "which"),
        *("nobody", "else", "has"),
    ]
    assert "48% ill" in repr(fm.four_hospitals())
    assert "Long Beach" in repr(fm.four_hospitals())


def test_hospitals_train_and_judge_on_different_patients():
    fed, data = fm.four_hospitals(seed=3), fm.load("heart")
    assert fed.names == HOSPITALS == data.group_names
    assert fed.sizes.tolist() == [181, 176, 73, 120]  # three fifths of 303, 294, 123 and 200
    assert (len(fed.validation[1]), len(fed.test[1])) == (185, 185)
    counts = fed.y.sum() + fed.validation[1].sum() + fed.test[1].sum()
    assert int(counts) == int(data.y.sum()) == 509
    measured = fed.x[:, :5]
    # Missing values are 0, so what is measured has mean 0 and a mean square of 1 by itself.
    known = (measured != 0).sum(0)
    assert torch.allclose(measured.sum(0) / known, torch.zeros(5), atol=1e-5)
    assert torch.allclose(measured.square().sum(0) / known, torch.ones(5), atol=1e-4)
    swiss = fed.client(2)[0]
    assert (swiss[:, 2] == 0).all()  # no cholesterol was recorded
    parts = [fm.four_hospitals(judge, seed=3) for judge in HOSPITALS]
    assert all(part.x.equal(fed.x) for part in parts)
    for place in ("validation", "test"):
        together = torch.cat([getattr(part, place)[0] for part in parts])
        assert together.equal(getattr(fed, place)[0])


def test_clients_have_names_and_notes():
    x, y = torch.zeros(2, 1), torch.zeros(2).long()
    given = {"x": x, "y": y, "sizes": [1, 1], "validation": (x, y), "test": (x, y), "classes": 1}
    assert fm.Federation(**given, names=("a", "b"), notes={1: "small"}).notes == {1: "small"}
