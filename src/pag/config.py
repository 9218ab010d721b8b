"""Recipes: frozen, strict settings read from TOML, overridden by `--set a.b=value`.

An unknown key is an error that names the nearest known one; all errors are listed at once.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pag.errors import RecipeError, nearest
from pag.registry import ANSWERS, ATTENTIONS, READOUTS, TASKS, find

Decay = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


class Settings(BaseModel):
    """A frozen section of a recipe; what it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class ModelSettings(Settings):
    embedding: int = Field(256, ge=1, description="size of the source and target embeddings")
    encoder: int = Field(360, ge=1, description="units of the encoder GRU, in each direction")
    decoder: int = Field(360, ge=1, description="units of each of the decoder's two GRU layers")
    readout: str = Field("deep", description="output layer: deep, or pointer to copy words from the source")
    answer: str | None = Field(
        None, description="how a marked answer becomes a vector: mean (of its annotations) or encoder (its own)"
    )
    mark_answer: bool = Field(False, description="the encoder is told which words are the answer's")
    vectors: str | None = Field(
        None, description="a file of word vectors that the embeddings start from: a word and its numbers on each line"
    )
    readout_size: int | None = Field(None, ge=1, description="units of the deep output; default: the embedding's")
    layer_norm: bool = Field(False, description="layer normalisation in decoder and planner")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout before the output layer")
    embedding_dropout: float = Field(0.0, ge=0, lt=1, description="dropout of the source and target embeddings")
    annotation_dropout: float = Field(0.0, ge=0, lt=1, description="dropout of the encoder's annotations")
    init: Literal["fan_in"] | Positive = Field(
        "fan_in", description="deviation of the initial weights: fan_in, or a number"
    )

    @field_validator("readout")
    @classmethod
    def _known(cls, name: str) -> str:
        return _registered(name, READOUTS, "readout")

    @field_validator("answer")
    @classmethod
    def _known_answer(cls, name: str | None) -> str | None:
        return None if name is None else _registered(name, ANSWERS, "answer")


class AttentionSettings(Settings):
    name: str = Field("pag", description="baseline, pag or rpag")
    k: int = Field(10, ge=1, le=1000, description="steps planned ahead")
    size: int | None = Field(None, ge=1, description="units of the alignment MLP; default: twice the encoder's")
    read_size: int = Field(64, ge=1, description="units of the summary of the plan (PAG)")
    gate_context: bool = Field(True, description="the update gate also sees the last context (PAG)")
    gate_bias: float = Field(2.0, description="initial bias of the update gate; above 0 starts as the baseline (PAG)")
    plans_from: Literal["upper", "lower"] = Field("upper", description="which decoder layer's state plans")
    temperature: Literal["learned"] | Positive = Field(
        "learned", description="of the Gumbel-softmax: learned, or a number"
    )
    estimator: Literal["gumbel", "reinforce"] = Field("gumbel", description="how the discrete commitment is trained")
    hold_updates: int = Field(400, ge=0, description="updates during which the switch is held on")
    hold_until: float | None = Field(
        None, gt=0, le=1, description="also hold until the validation loss is under this share of the untrained model's"
    )

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return _registered(name, ATTENTIONS, "attention")


class LossSettings(Settings):
    likelihood: Literal["marginal", "paper"] = Field(
        "marginal",
        description="of a word that can be written or copied: by all ways together, or by the one the paper assigns",
    )
    commitment: float = Field(3e-5, ge=0, description="λ_com, the weight of the commitment loss")
    commitment_warmup: int = Field(
        0, ge=0, description="updates over which λ_com rises from 0 once the switch is released"
    )
    replan_rate: float | None = Field(
        None, gt=0, le=1, description="largest share of steps that may re-plan free of charge; default: all"
    )
    replan_weight: float = Field(
        0.3, ge=0, description="nats that each re-plan beyond replan_rate costs; rises with commitment_warmup too"
    )
    replan_guard: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="share of its best train.monitor that a model may lose before re-plans cost nothing until it is "
        "back, and half as much then; default: any",
    )
    reinforce: float = Field(1.0, ge=0, description="weight of the policy gradient (attention.estimator = reinforce)")
    label_smoothing: float = Field(0.0, ge=0, lt=1)


class TrainSettings(Settings):
    max_updates: int = Field(5000, ge=1)
    batch_size: int = Field(32, ge=1, description="sentences (or tokens) of one batch, over all processes together")
    batch_by: Literal["sentences", "tokens"] = Field(
        "sentences", description="what batch_size counts; tokens are target tokens with padding"
    )
    accumulate: int = Field(1, ge=1, description="batches whose gradients make one update")
    optimizer: Literal["adam", "adamw"] = "adam"
    lr: float = Field(2e-4, gt=0)
    betas: tuple[Decay, Decay] = Field((0.9, 0.999), strict=False)
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(5.0, ge=0, description="largest global gradient norm; 0 switches clipping off")
    schedule: Literal["constant", "linear", "cosine", "inverse_sqrt"] = Field(
        "constant", description="of the learning rate, after warmup"
    )
    warmup: int = Field(0, ge=0, description="updates over which the learning rate rises from 0")
    ema: float = Field(0.0, ge=0, lt=1, description="decay of the moving average of the weights; 0 switches it off")
    seed: int = Field(0, ge=0)
    precision: Literal["float32", "bfloat16"] = "float32"
    backend: Literal["auto", "reference", "fused"] = Field(
        "auto", description="how the decoder's teacher-forced pass is computed"
    )
    log_every: int = Field(20, ge=1, description="updates between lines of the log")
    validate_every: int = Field(200, ge=1, description="updates between validations")
    validate_examples: int | None = Field(
        None, ge=1, description="validation examples that are generated for; default: all"
    )
    samples: int = Field(3, ge=0, description="outputs shown at each validation")
    save_every: int = Field(200, ge=1, description="updates between checkpoints")
    keep: int = Field(1, ge=1, description="latest checkpoints kept, besides the best")
    monitor: str = Field("loss", description="validation metric that decides which checkpoint is best")
    patience: int | None = Field(None, ge=1, description="validations without a better monitor before training stops")
    target: float | None = Field(None, description="stop once the monitor is at least this good")


class GenerateSettings(Settings):
    beam: int = Field(1, ge=1)
    length_penalty: float = Field(1.0, ge=0, description="scores are divided by length to this power")
    max_length: int = Field(500, ge=1, description="longest output, in tokens")
    unknown: bool = Field(True, description="may outputs hold the symbol for unknown words?")
    max_source: int = Field(1000, ge=1, description="longest input, in tokens; longer ones are cut, with a warning")
    batch_size: int | None = Field(None, ge=1, description="inputs at once; default: 32, or 4096 / beam on a GPU")


class Recipe(Settings):
    """Everything that decides a run, but for the machine it runs on."""

    description: str = ""
    task: Any
    model: ModelSettings = ModelSettings()
    attention: AttentionSettings = AttentionSettings()
    loss: LossSettings = LossSettings()
    train: TrainSettings = TrainSettings()
    generate: GenerateSettings = GenerateSettings()

    def flat(self) -> dict[str, Any]:
        """`{"attention.k": 10, …}`."""
        return flattened(self.model_dump(mode="json"))


def flattened(recipe: Mapping[str, Any]) -> dict[str, Any]:
    sections = {name: settings for name, settings in recipe.items() if isinstance(settings, dict)}
    return {f"{name}.{key}": value for name, settings in sections.items() for key, value in settings.items()}


def _registered(name: str, registry: Mapping[str, str], kind: str) -> str:
    if name not in registry:
        told = nearest(name, registry)
        more = "" if "did you mean" in told else "; one of your own comes with `pag --import MODULE`"
        raise ValueError(f"unknown {kind} '{name}'{told}{more}")
    return name


def recipe_names() -> dict[str, str]:
    """Every recipe in the package: name → its description."""
    root = Path(str(resources.files("pag") / "recipes"))
    files = sorted(root.rglob("*.toml"))
    return {
        str(file.relative_to(root).with_suffix("").as_posix()): _parse(file).get("description", "") for file in files
    }


def read_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe by name or by path of a TOML file, with `a.b=value` overrides."""
    file = Path(name)
    if not file.is_file():
        shipped = Path(str(resources.files("pag") / "recipes")) / f"{name}.toml"
        if not shipped.is_file():
            raise RecipeError(f"unknown recipe '{name}'{nearest(name, recipe_names())}; `pag recipes` lists them")
        file = shipped
    values = _parse(file)
    for override in overrides:
        _override(values, override)
    return build_recipe(values, str(file) if file == Path(name) else f"recipe {name}")


def build_recipe(values: Mapping[str, Any], where: str) -> Recipe:
    """A recipe from plain values, the task's section read by the task; every error is listed."""
    problems: dict[str, str] = {}
    task = _build_task(values.get("task"), problems)
    try:
        recipe = Recipe.model_validate({**values, "task": task})
        if task is not None:
            _check_pointing(recipe, problems)
            _check_monitor(recipe, problems)
            _check_guard(recipe, problems)
    except ValidationError as error:
        _list(error, (), problems)
    if problems:
        raise RecipeError(f"{where}: " + "; ".join(problems.values()))
    return recipe


def _build_task(values: Any, problems: dict[str, str]) -> Any:
    """The task's own settings, which the task declares."""
    name = values.get("name") if isinstance(values, Mapping) else None
    if not isinstance(name, str):
        problems["task"] = "needs a section [task] with a name"
    elif name not in TASKS:
        problems["task.name"] = f"'task.name' unknown task '{name}'{nearest(name, TASKS)}"
    else:
        try:
            return find(TASKS, name, "task").Settings.model_validate(values)
        except ValidationError as error:
            _list(error, ("task",), problems, find(TASKS, name, "task").Settings)
    return None


def _check_guard(recipe: Recipe, problems: dict[str, str]) -> None:
    if recipe.loss.replan_guard is not None and recipe.loss.replan_rate is None:
        problems["loss.replan_guard"] = "'loss.replan_guard' guards a price: give 'loss.replan_rate' too, as in 0.3"


def _check_pointing(recipe: Recipe, problems: dict[str, str]) -> None:
    """Copying needs a task whose sources can be copied from, and such a task needs a readout that copies."""
    points = find(TASKS, recipe.task.name, "task").points
    if points != find(READOUTS, recipe.model.readout, "readout").points:
        right = [name for name in READOUTS if find(READOUTS, name, "readout").points == points]
        problems["model.readout"] = (
            f"'model.readout' must be {' or '.join(right)} for the task {recipe.task.name}, "
            f"not {recipe.model.readout!r}"
        )
    for key in ("answer", "mark_answer"):
        if getattr(recipe.model, key) and not points:
            problems[f"model.{key}"] = f"'model.{key}' is for tasks with an answer, which {recipe.task.name} has not"
    if recipe.loss.label_smoothing and points:
        problems["loss.label_smoothing"] = "'loss.label_smoothing' must be 0 where words are copied"


def _check_monitor(recipe: Recipe, problems: dict[str, str]) -> None:
    known, name = find(TASKS, recipe.task.name, "task").monitors(), recipe.train.monitor
    if name not in known:
        problems["train.monitor"] = f"'train.monitor' unknown metric '{name}'{nearest(name, known)}"


def _list(
    error: ValidationError, prefix: tuple[str, ...], problems: dict[str, str], root: type[Settings] | None = None
) -> None:
    """One phrase per key: what is wrong, and what would be right. Alternatives of one key are joined."""
    for item in error.errors():
        path = [str(part) for part in item["loc"] if not _names_a_type(part)]
        key = ".".join([*prefix, *path]) or "recipe"
        if item["type"] == "extra_forbidden":
            known = (root or _section(path[:-1])).model_fields
            problems[key] = f"unknown key '{key}'{nearest(path[-1], known)}"
            continue
        message = item["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if key in problems:
            problems[key] = problems[key].replace(_shown(item["input"]), "") + f" or {message}" + _shown(item["input"])
        else:
            shown = "" if "unknown" in message else _shown(item["input"])
            problems[key] = f"'{key}' {message}{shown}"


def _names_a_type(part: int | str) -> bool:
    """Does this part of an error's place name one alternative of a union?"""
    return isinstance(part, str) and (part in ("float", "int") or part.startswith(("literal[", "constrained-")))


def _shown(value: Any) -> str:
    return f", not {value!r}" if isinstance(value, str | int | float | bool) else ""


def _section(path: Sequence[str]) -> type[Settings]:
    kind = Recipe.model_fields[path[0]].annotation if path else Recipe
    assert isinstance(kind, type) and issubclass(kind, Settings)
    return kind


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file}: not a TOML file: {error}") from None


def _override(values: dict[str, Any], text: str) -> None:
    """Set `a.b=value`; the value is read as TOML, or as a plain string where it is none."""
    path, equals, value = text.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise RecipeError(f"--set {text}: expected section.key=value, as in attention.k=5")
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise RecipeError(f"--set {text}: '{key}' is a value, not a section")
    values[keys[-1]] = None if parsed == "none" else parsed


def to_toml(recipe: Recipe) -> str:
    """A recipe as TOML, every default filled in; what is off is a comment."""
    values = recipe.model_dump(mode="json")
    lines = [f"description = {json.dumps(values.pop('description'), ensure_ascii=False)}"]
    for section, settings in values.items():
        lines += ["", f"[{section}]"]
        lines += [f"# {key} is not set" if v is None else f"{key} = {json.dumps(v)}" for key, v in settings.items()]
    return "\n".join(lines)
