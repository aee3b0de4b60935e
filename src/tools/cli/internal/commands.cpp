// The table of commands. A new command is a file in commands/ and a line here.
#include "tools/cli/internal/command.h"
#include "tools/cli/internal/commands/calibrate.h"
#include "tools/cli/internal/commands/demo.h"
#include "tools/cli/internal/commands/eval.h"
#include "tools/cli/internal/commands/explain.h"
#include "tools/cli/internal/commands/export.h"
#include "tools/cli/internal/commands/fuzz.h"
#include "tools/cli/internal/commands/generate.h"
#include "tools/cli/internal/commands/inspect.h"
#include "tools/cli/internal/commands/launch.h"
#include "tools/cli/internal/commands/measure.h"
#include "tools/cli/internal/commands/plan.h"
#include "tools/cli/internal/commands/predict.h"
#include "tools/cli/internal/commands/replay.h"
#include "tools/cli/internal/commands/simulate.h"
#include "tools/cli/internal/commands/solve.h"
#include "tools/cli/internal/commands/train.h"
#include "tools/cli/internal/commands/verify.h"

namespace tessera {
namespace {

template <typename AnyCommand>
std::unique_ptr<Command> make() {
  return std::make_unique<AnyCommand>();
}

constexpr bool kOneProcess = false, kSeveralProcesses = true;

constexpr CommandEntry kCommands[] = {
    {"train", "Train a model, serially or on the ranks of a plan", kSeveralProcesses,
     make<TrainCommand>, "tessera train docs/examples/gpt.toml --ranks 2 --out run"},
    {"eval", "Measure the validation loss of a checkpoint", kSeveralProcesses, make<EvalCommand>,
     "tessera eval run --plan dp=2"},
    {"generate", "Continue a text with the model of a checkpoint", kSeveralProcesses,
     make<GenerateCommand>, "tessera generate run --prompt 'int main' --tokens 40"},
    {"predict", "Write the predictions of a checkpoint for data of your own", kSeveralProcesses,
     make<PredictCommand>, "tessera predict run --data images.npy --out classes.jsonl --classes"},
    {"export", "Write the parameters of a checkpoint, or a model as a graph file", kOneProcess,
     make<ExportCommand>, "tessera export run --out model.safetensors"},
    {"verify", "Compare a plan with the serial program, tensor by tensor", kSeveralProcesses,
     make<VerifyCommand>, "tessera verify docs/examples/gpt.toml --plan dp=2,tp=2 --steps 1"},
    {"plan", "Search a fast plan for a configuration on a cluster", kOneProcess, make<PlanCommand>,
     "tessera plan docs/examples/gpt.toml --cluster 8xa100-80g --out plan.json"},
    {"explain", "Show the placement of every tensor, what is communicated, and why", kOneProcess,
     make<ExplainCommand>,
     "tessera explain docs/examples/gpt.toml --plan dp=2,tp=2 blocks.0.ffn.down.dot"},
    {"simulate", "Predict the step of a plan on a cluster: its time, memory and waits", kOneProcess,
     make<SimulateCommand>,
     "tessera simulate docs/examples/gpt.toml --plan dp=4,tp=2 --cluster 8xa100-80g"},
    {"replay", "Predict measured runs of a table, and compare", kOneProcess, make<ReplayCommand>,
     "tessera replay runs.csv --runtime megatron"},
    {"measure", "Measure this machine, or processes, and write a cluster file", kSeveralProcesses,
     make<MeasureCommand>, "tessera measure --out machine.toml"},
    {"calibrate", "Correct a cluster file by the measured steps of a few runs", kOneProcess,
     make<CalibrateCommand>,
     "tessera calibrate docs/examples/gpt.toml --cluster machine.toml --out corrected.toml"},
    {"inspect", "Describe a plan, a configuration, a cluster, a checkpoint or a text", kOneProcess,
     make<InspectCommand>, "tessera inspect run"},
    {"fuzz", "Compare random programs under random placements with the serial programs",
     kOneProcess, make<FuzzCommand>, "tessera fuzz --cases 100"},
    {"solve", "Solve an intra-operator problem in the public contest's format", kOneProcess,
     make<SolveCommand>, "tessera solve configs/problems/two_layers.json"},
    {"launch", "Run a command on several processes, and restart it when one is lost", kOneProcess,
     make<LaunchCommand>,
     "tessera launch -n 2 --restarts 3 -- train docs/examples/gpt.toml --plan dp=2 --out run"},
    {"demo", "Train a small GPT serially and on several ranks, compare, and generate text",
     kOneProcess, make<DemoCommand>, "tessera demo"},
};

}  // namespace

std::span<const CommandEntry> commands() {
  return kCommands;
}

}  // namespace tessera
