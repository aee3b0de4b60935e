#include "task_graph/tasks/required_anti_dependences.h"

#include <algorithm>
#include <optional>

namespace tessera {
namespace {

enum class State : uint8_t {
  kElsewhere,  // another stream fills it: it may be filled at any time
  kFilled,     // since the last check
  kReleased,   // all readers have released it, and it has not been filled since
};

}  // namespace

std::vector<std::vector<RegisterIndex>> required_anti_dependences(
    const TaskGraph& graph, const std::vector<TaskId>& stream, const AntiDependenceSource& source) {
  IndexedVector<RegisterIndex, State> states(graph.registers.size(), State::kElsewhere);
  const auto fill = [&](TaskId task) {
    for (RegisterIndex reg : graph.tasks[task].outputs) {
      states[reg] = State::kFilled;
      source.fill(reg);
    }
  };
  for (TaskId task : stream) fill(task);
  std::vector<std::vector<RegisterIndex>> needed(stream.size());
  // By register, the place of the last task in whose list the first step has put it.
  IndexedVector<RegisterIndex, std::optional<size_t>> listed(graph.registers.size());
  // The second step begins with the states that the first one leaves.
  for (int step = 0; step < 2; ++step)
    for (size_t place = 0; place < stream.size(); ++place) {
      std::vector<RegisterIndex>& list = needed[place];
      for (RegisterIndex reg : list) listed[reg] = place;
      for (RegisterIndex reg : source.overwrites(stream[place])) {
        const std::span<const TaskId> readers = graph.registers[reg].consumers;
        if (readers.empty() || states[reg] == State::kReleased) continue;
        if (listed[reg] != place) list.push_back(reg);
        // A task does not wait for itself, so one that reads the register has not waited for all.
        if (states[reg] == State::kFilled &&
            std::find(readers.begin(), readers.end(), stream[place]) == readers.end()) {
          states[reg] = State::kReleased;
          source.release(reg);
        }
      }
      fill(stream[place]);
    }
  return needed;
}

std::vector<std::vector<RegisterIndex>> required_anti_dependences(
    const TaskGraph& graph, const std::vector<TaskId>& stream) {
  const auto nothing = [](RegisterIndex) {};
  return required_anti_dependences(graph, stream,
                                   {[&](TaskId task) {
                                      const std::span<const RegisterIndex> list =
                                          graph.tasks[task].overwrites;
                                      return std::vector<RegisterIndex>(list.begin(), list.end());
                                    },
                                    nothing, nothing});
}

}  // namespace tessera
