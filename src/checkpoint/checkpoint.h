// A model folder in the Hugging Face layout, opened, checked and mapped: the weights by name, borrowed from
// the files.
//
//   TS_TRY(const Checkpoint checkpoint, Checkpoint::open("models/tessera-tiny"));
//   const HostMatrix o = checkpoint.matrix("model.layers.0.self_attn.o_proj");
//   const std::vector<float> norm = checkpoint.vector("model.norm");
//
// open() reads config.json and the files' headers and accounts for every tensor: one that is missing,
// unexpected, mis-shaped, mis-typed, truncated or there twice is an error that names file and tensor, before
// any weight is read. Afterwards nothing can fail, short of the disk: asking for a name that
// parameters_of(config()) does not list is our own mistake and aborts. Files must not be changed while they
// are mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/binding.h"
#include "checkpoint/host_matrix.h"
#include "checkpoint/model_config.h"
#include "checkpoint/parameters.h"
#include "checkpoint/tensor_files.h"
#include "checkpoint/zero_pages.h"

namespace tessera {

class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::filesystem::path& folder);
  // The same names, shapes and formats, but every value is zero and no file is read: for planning memory by
  // the code that loads. From a config: in the formats that it promises.
  static Result<Checkpoint> outline(const ModelConfig& config);
  Result<Checkpoint> outline() const;

  const ModelConfig& config() const { return config_; }
  const std::filesystem::path& folder() const { return folder_; }

  // Names as in parameters_of(): "model.layers.3.mlp.experts.7.down_proj", for drafts "layers.0.…", "fc",
  // "lm_head". With tied embeddings "lm_head" is the embedding.
  bool has(std::string_view name) const;  // false for an optional parameter that the files do not hold
  HostMatrix matrix(std::string_view name) const;
  std::vector<float> vector(std::string_view name) const;            // norms and biases, widened to f32
  std::vector<std::int64_t> token_map(std::string_view name) const;  // "d2t"; "t2d" as 0 and 1

  // What lies in files, in about the order in which a loader asks for it. An outline has none.
  std::vector<std::span<const std::byte>> weight_bytes() const;
  // Gives the files' pages back after loading; the next access would read them again.
  void drop_pages() const;
  std::int64_t stored_bytes(std::string_view name) const;  // data and scales, for progress
  ModuleClass module_class(std::string_view name) const { return bound(name).parameter.module_class; }

  const Binding& binding() const { return binding_; }
  std::int64_t total_bytes() const { return binding_.bytes; }  // of the parameters that are used

 private:
  Checkpoint() = default;
  static Result<Checkpoint> outline(const ModelConfig& config, std::vector<BoundParameter> parameters);
  const BoundParameter& bound(std::string_view name) const;

  std::filesystem::path folder_;  // empty: an outline
  ModelConfig config_;
  TensorFiles files_;
  ZeroPages zeros_;  // of an outline
  Binding binding_;  // points into files_, or zeros_
};

}  // namespace tessera
