// The arenas of the plans in configs/plans: how far they exceed what is alive at once, with the
// layout of the compiler and with first fit by size, the plain layout that others are compared
// with; and in how many pairs another block has bytes of one that is read elsewhere ("waits").
//
//   ./dev bench arena                              all plans, each with the configuration of its
//   name
//   ./dev bench arena CONFIG PLAN [KEY=VALUE...]   one pair: ... gpt.toml gpt.dp2-tp2.json
//                                                  model.layers=96
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "compiler/lower/storage/hazards.h"
#include "compiler/lower/storage/testing/plain_layouts.h"
#include "compiler/plan/plan.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// A way to lay out arenas, over all of them.
struct Figures {
  int64_t bytes = 0, waits = 0;
  int above = 0;  // by more than 1%
  double worst = 0;
  std::string worst_arena;
  double seconds = 0;

  void add(const std::string& arena, const LiveBlocks& blocks, const BlockLayout& layout,
           int64_t bound) {
    const double excess = excess_of(layout.size, bound);
    bytes += layout.size;
    waits += count_hazards(blocks, layout);
    above += excess > 0.01 ? 1 : 0;
    if (excess <= worst) return;
    worst = excess;
    worst_arena = arena;
  }
  static double excess_of(int64_t size, int64_t bound) {
    return bound == 0 ? 0 : static_cast<double>(size) / static_cast<double>(bound) - 1;
  }
};

struct Comparison {
  Figures compiler, plain;
  int64_t bound = 0;
  int arenas = 0, larger = 0;  // than first fit by size
};

double seconds_of(const Compiled& compiled, std::string_view pass) {
  for (const PassReport& report : compiled.passes)
    if (report.name == pass) return report.time.value();
  return 0;
}

void compare(const std::string& pair, const Graph& graph, const Plan& plan, Comparison& all) {
  CompileOptions options;
  options.check_placements = false;
  const Compiled compiled = compile(graph, plan, options);
  all.compiler.seconds += seconds_of(compiled, "arena");
  for (MeshIndex mesh : compiled.arenas.indices()) {
    const ArenaPlan& arena = compiled.arenas[mesh];
    const BlockLayout layout{arena.offsets, arena.size.value()};
    const BlockLayout plain = first_fit_by_size(arena.blocks);
    const int64_t bound = arena.live_bound.value();
    const std::string name = pair + " " + compiled.mesh_names[mesh];
    fmt::print("{:<40} {:>7} {:>12} {:>12} {:>7.2f}% {:>7.2f}% {:>9} {:>9}\n", name,
               arena.blocks.size(), bound, layout.size,
               100 * Figures::excess_of(layout.size, bound),
               100 * Figures::excess_of(plain.size, bound), count_hazards(arena.blocks, layout),
               count_hazards(arena.blocks, plain));
    all.compiler.add(name, arena.blocks, layout, bound);
    all.plain.add(name, arena.blocks, plain, bound);
    all.bound += bound;
    all.larger += layout.size > plain.size ? 1 : 0;
    ++all.arenas;
  }
}

void print(std::string_view title, const Figures& figures, const Comparison& all) {
  fmt::print("{:<18} {:>3} of {} above 1%, {} bytes ({:+.3f}%), worst {:.2f}% {}, {} waits\n",
             title, figures.above, all.arenas, figures.bytes,
             100 * Figures::excess_of(figures.bytes, all.bound), 100 * figures.worst,
             figures.worst_arena, figures.waits);
}

void run(const std::vector<std::string>& words) {
  Comparison all;
  fmt::print("{:<40} {:>7} {:>12} {:>12} {:>8} {:>8} {:>9} {:>9}\n", "arena", "blocks", "alive",
             "size", "excess", "plain", "waits", "plain");
  if (words.size() >= 2) {
    const RunConfig config = read_config(words[0], {words.begin() + 2, words.end()});
    compare(fs::path(words[1]).stem(), training_graph(config), read_plan(words[1]), all);
  } else {
    std::vector<fs::path> files(fs::directory_iterator("configs/plans"), {});
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      const std::string pair = file.stem(), config = pair.substr(0, pair.find('.'));
      compare(pair, training_graph(read_config("configs/" + config + ".toml")), read_plan(file),
              all);
    }
  }
  print("compiler", all.compiler, all);
  print("first fit by size", all.plain, all);
  fmt::print("{} arenas are larger than by first fit; the pass took {:.3f} s\n", all.larger,
             all.compiler.seconds);
}

}  // namespace
}  // namespace tessera

int main(int count, char** words) {
  tessera::run({words + 1, words + count});
}
