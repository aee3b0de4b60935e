#include "training/engine/checkpoints/background_save.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/threads/worker.h"
#include "training/engine/checkpoints/checkpoint_content.h"
#include "training/engine/internal/steps/step_checks.h"

namespace tessera {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

struct BackgroundSave::State {
  /// The copy of the parts that one rank owns. Its memory is used again for the next save.
  struct Snapshot {
    Rank rank = 0;
    std::vector<std::byte> bytes;
    std::vector<StoredPart> parts;  // their data is in `bytes`

    /// Lays out the parts one after another, and makes room for them.
    void lay_out(std::vector<StoredPart> owned) {
      parts = std::move(owned);
      size_t end = 0;
      for (const StoredPart& part : parts) end += room_of(part);
      if (end != bytes.size()) bytes.assign(end, std::byte{});
    }

    void copy(std::vector<StoredPart> owned) {
      lay_out(std::move(owned));
      std::byte* next = bytes.data();
      for (StoredPart& part : parts) {
        if (const size_t size = size_in_bytes(part); size > 0) std::memcpy(next, part.data, size);
        part.data = next;
        next += room_of(part);
      }
    }

    static size_t size_in_bytes(const StoredPart& part) {
      return element_count(part.box.shape()) * size_of(part.dtype);
    }
    static size_t room_of(const StoredPart& part) {
      return (size_in_bytes(part) + kAlignment - 1) / kAlignment * kAlignment;
    }
  };

  Engine& engine;
  CheckpointFolder& folder;
  std::vector<Snapshot> snapshots;  // of the ranks of this process
  int64_t step = 0;                 // of the pending save
  int ranks = 0;
  /// The phases of the pending save that are not done in all processes. The first one is that of
  /// the writer; it is empty when this process has nothing to do in it.
  std::deque<std::function<void()>> phases = {};
  std::atomic<bool> is_writing{false};
  std::optional<Worker> writer = {};  // last: its thread ends before the members that it uses

  State(Engine& training, CheckpointFolder& place) : engine(training), folder(place) {
    take([](Snapshot& snapshot, std::vector<StoredPart> owned) {
      snapshot.lay_out(std::move(owned));
      snapshot.parts.clear();
    });
  }

  bool are_several() const {
    return std::ssize(engine.runtime().local_ranks()) < engine.runtime().ranks();
  }

  /// Calls `fill` with the snapshot of each local rank, on the threads of the ranks.
  template <typename Fill>
  void take(const Fill& fill) {
    Runtime& runtime = engine.runtime();
    const std::vector<Rank>& local = runtime.local_ranks();
    snapshots.resize(local.size());  // the plan may have changed
    const auto variables = variables_of(engine.graph());
    runtime.on_every_rank([&](Rank rank, std::span<const VariablePart> held) {
      Snapshot& snapshot = snapshots[std::ranges::find(local, rank) - local.begin()];
      snapshot.rank = rank;
      fill(snapshot, owned_parts(variables, held));
    });
  }

  void store() {
    for (const Snapshot& snapshot : snapshots)
      folder.store(step, snapshot.rank, ranks, snapshot.parts);
  }

  void plan_phases(const Retention& retention) {
    const auto make_folder = [this] { folder.begin(step); };
    const auto commit = [this, retention, documents = documents_of(engine)] {
      folder.commit(step, ranks, documents.state, documents.plan, retention);
    };
    if (!are_several())
      phases = {[this, make_folder, commit] {
        make_folder();
        store();
        commit();
      }};
    else if (engine.runtime().is_leader())
      phases = {make_folder, [this] { store(); }, commit};
    else
      phases = {nullptr, [this] { store(); }, nullptr};
  }

  void start_phase() {
    if (!phases.front()) return;
    is_writing = true;
    writer.emplace([this] {
      const std::shared_ptr<void> at_end(nullptr, [this](void*) { is_writing = false; });
      phases.front()();
    });
  }

  void join_phase() {
    if (writer) writer->join();
    writer.reset();
  }

  /// Ends a phase that is done in all processes, or waits for it.
  void end_phase() {
    try {
      if (are_several())
        engine.runtime().on_all_processes([this] { join_phase(); });
      else
        join_phase();
    } catch (...) {
      abandon();
      throw;
    }
    phases.pop_front();
    if (!phases.empty()) start_phase();
  }

  void abandon() {
    writer.reset();
    phases.clear();
  }
};

BackgroundSave::BackgroundSave(Engine& engine, CheckpointFolder& folder)
    : state_(std::make_unique<State>(engine, folder)) {}

BackgroundSave::~BackgroundSave() {
  if (!is_pending()) return;
  try {
    state_->join_phase();
  } catch (const std::exception& error) {
    log_warning("a checkpoint was not stored: " + std::string(error.what()));
  } catch (...) {
    log_warning("a checkpoint was not stored");
  }
}

void BackgroundSave::begin(const Retention& retention) {
  check_none_in_flight(state_->engine.runtime().steps_in_flight(), "BackgroundSave::begin()");
  finish();
  state_->step = state_->engine.step_count();
  state_->ranks = state_->engine.runtime().ranks();
  state_->take([](State::Snapshot& snapshot, std::vector<StoredPart> owned) {
    snapshot.copy(std::move(owned));
  });
  state_->plan_phases(retention);
  state_->start_phase();
}

bool BackgroundSave::is_pending() const {
  return !state_->phases.empty();
}

bool BackgroundSave::is_writing() const {
  return state_->is_writing;
}

void BackgroundSave::poll() {
  if (is_pending()) poll(state_->engine.runtime().any(is_writing()));
}

void BackgroundSave::poll(bool any_is_writing) {
  if (is_pending() && !any_is_writing) state_->end_phase();
}

void BackgroundSave::finish() {
  if (is_pending() && state_->are_several() && state_->engine.runtime().failed()) {
    log_warning(checkpoint_name(state_->step) +
                " is not stored: the run failed while it was written");
    state_->abandon();
  }
  while (is_pending()) state_->end_phase();
}

}  // namespace tessera
