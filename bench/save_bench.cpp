// The pause of training at a save in the background, over the time of one copy of the state; for
// comparison the pause of a save for which training waits. Copies and saves alternate in one run,
// so that other jobs affect both alike.
//
//     save_bench FOLDER [WIDTH] [SAVES]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "../src/training/engine/testing/runs.h"
#include "training/engine/checkpointing.h"
#include "training/engine/checkpoints/background_save.h"
#include "training/engine/checkpoints/checkpoint_content.h"

namespace tessera {
namespace {

constexpr int kStepsBetweenSaves = 3;

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Copies the parts that each rank owns, on its thread, into memory that was used before.
class Copy {
 public:
  explicit Copy(Engine& engine)
      : engine_(engine),
        variables_(variables_of(engine.graph())),
        bytes_(engine.runtime().ranks()) {
    run();
  }
  void run() {
    engine_.runtime().on_every_rank([&](Rank rank, std::span<const VariablePart> held) {
      const std::vector<StoredPart> owned = owned_parts(variables_, held);
      std::vector<std::byte>& bytes = bytes_[rank];
      if (bytes.empty()) bytes.resize(size_of_all(owned));
      size_t next = 0;
      for (const StoredPart& part : owned) {
        const size_t size = element_count(part.box.shape()) * size_of(part.dtype);
        std::memcpy(bytes.data() + next, part.data, size);
        next += size;
      }
    });
  }
  size_t size() const {
    size_t all = 0;
    for (const auto& bytes : bytes_) all += bytes.size();
    return all;
  }

 private:
  static size_t size_of_all(const std::vector<StoredPart>& parts) {
    size_t all = 0;
    for (const StoredPart& part : parts)
      all += element_count(part.box.shape()) * size_of(part.dtype);
    return all;
  }
  Engine& engine_;
  std::map<std::string, TensorType> variables_;
  std::vector<std::vector<std::byte>> bytes_;  // by rank
};

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// The longest time that polls took until the save was stored, with steps between them.
double train_until_stored(Engine& engine, BackgroundSave& save) {
  double longest = 0;
  for (int step = 0; step < kStepsBetweenSaves || save.is_pending(); ++step) {
    engine.step();
    longest = std::max(longest, seconds_of([&] { save.poll(); }));
  }
  return longest;
}

void compare(const std::filesystem::path& path, const std::string& plan, int64_t width, int saves) {
  RunConfig config = tiny_mlp();
  config.model.width = width;
  Engine engine(config, plan_of("mlp", plan), small_text());
  RealFileSystem disk;
  CheckpointFolder folder(disk, path);
  BackgroundSave save(engine, folder);
  Copy copy(engine);
  std::vector<double> copies, pauses;
  double polls = 0;
  engine.step();
  for (int i = 0; i < saves; ++i) {
    copies.push_back(seconds_of([&] { copy.run(); }));
    pauses.push_back(seconds_of([&] { save.begin(1); }));
    polls = std::max(polls, train_until_stored(engine, save));
  }
  const double waiting = seconds_of([&] { save_checkpoint(engine, folder, 1); });
  const double longest = std::max(polls, *std::ranges::max_element(pauses));
  const double longest_copy = *std::ranges::max_element(copies);
  fmt::print(
      "{:6} state {:5.0f} MB  copy {:6.1f} ms (longest {:6.1f})  pause {:6.1f} ms (longest {:6.1f},"
      " of polls {:5.2f})  pause / copy: longest {:5.2f}, median {:5.2f}  waiting {:7.1f} "
      "ms\n",
      plan, 1e-6 * static_cast<double>(copy.size()), 1e3 * median(copies), 1e3 * longest_copy,
      1e3 * median(pauses), 1e3 * longest, 1e3 * polls, longest / longest_copy,
      median(pauses) / median(copies), 1e3 * waiting);
  disk.remove(path);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("save_bench FOLDER [WIDTH] [SAVES]\n");
    return 2;
  }
  const int64_t width = argc > 2 ? std::atoll(argv[2]) : 4096;
  const int saves = argc > 3 ? std::atoi(argv[3]) : 7;
  for (const char* plan : {"serial", "tp2", "dp2"})
    tessera::compare(std::filesystem::path(argv[1]) / "save_bench", plan, width, saves);
}
