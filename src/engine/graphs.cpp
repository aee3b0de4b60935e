#include "engine/graphs.h"

#include "autodiff/optimizer.h"
#include "engine/metrics.h"
#include "ops/builder.h"

namespace tessera {

Graph loss_graph(const RunConfig& config) {
  return build_model(
      config.model,
      {.batch = config.train.batch, .training = true, .loss = true, .seed = config.train.seed});
}

Graph training_graph(const RunConfig& config) {
  Graph graph = loss_graph(config);
  Builder builder(graph, config.train.seed);
  add_training(builder, graph.output("loss"), config.optimizer);
  return graph;
}

Graph evaluation_graph(const RunConfig& config, int64_t batch) {
  Graph graph = build_model(
      config.model, {.batch = batch, .training = false, .loss = true, .seed = config.train.seed});
  add_correct_count(graph);
  if (objective_of(config.model) == Objective::kClassOfPixel) add_iou_counts(graph);
  graph.remove_output("logits");
  return graph;
}

Graph prediction_graph(const RunConfig& config) {
  return build_model(config.model,
                     {.batch = 1, .training = false, .loss = false, .seed = config.train.seed});
}

Graph decoding_graph(const RunConfig& config) {
  return build_model(
      config.model,
      {.batch = 1, .training = false, .loss = false, .decode = true, .seed = config.train.seed});
}

}  // namespace tessera
