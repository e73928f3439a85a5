#!/usr/bin/env bash
# Makes the sample traces again, on a machine with an NVIDIA GPU, and their table in TRACES.md.
#
#   sample_traces/record.sh server|launch|nodes|vllm|all [NAME-PATTERN]
#
# A trace that exists is left alone: delete it to make it anew. NAME-PATTERN (a shell pattern) narrows the choice down.
#   CCTRACE  command that records   (default: cctrace)
#   PYTHON   Python that has torch  (default: python3); for vllm it must have vLLM 0.26 too
#   OUT      folder for the traces  (default: this one)
#   LIMIT    seconds per recording  (default: 150)
set -uo pipefail
OUT=$(realpath "${OUT:-$(dirname "${BASH_SOURCE[0]}")}")
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
read -ra cctrace <<<"${CCTRACE:-cctrace}"
python=${PYTHON:-python3}
limit=${LIMIT:-150}
pattern=${2:-*}
platform=b200-tdx
# So that a graph step takes the GPU a little longer than the host: there is overlap to lose, and it can be hidden.
layers=12
host_work_us=150
failed=()

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# record NAME RECORD-OPTIONS... -- PROGRAM ARGUMENTS...
# A lock keeps two runs of this script apart.
record() {
  local name=$1 trace=$OUT/$1.parquet hidden=$OUT/.$1 begin=$SECONDS own=() status results=.${1%-*}.json
  shift
  # shellcheck disable=SC2254
  case $name in $pattern) ;; *) return ;; esac
  while [[ $1 != -- ]]; do own+=("$1"); shift; done
  shift
  # The load's results go into the trace; the arms of a pair use the same name, so that their commands are equal.
  [[ $1 != serve* ]] || { own+=(--results "$results"); set -- "$@" --result-filename "$results"; }
  [[ ! -e $trace ]] || { echo "$name: exists"; return; }
  exec 9>"$hidden.lock"
  flock -n 9 || { echo "$name: another run is making it"; return; }
  rm -f "$results"
  timeout --kill-after=10 "$limit" "${cctrace[@]}" record -o "$trace" --label "$name" "${own[@]}" \
    -- "$python" "$@" >"$hidden.log" 2>&1
  status=$?
  if [[ $status == 0 && -e $trace ]]; then
    echo "$name: $(($(stat -c %s "$trace") / 1024)) KiB in $((SECONDS - begin)) s$(
      grep -oE '"(median_step_us|median_itl_ms)": [0-9.]+' "$hidden.log" | tail -n 1 | tr -d '"' | sed 's/^/, /')"
    rm -f "$hidden.log"
  else
    echo "$name: exit code $status after $((SECONDS - begin)) s; see $hidden.log" >&2
    tail -n 15 "$hidden.log" >&2
    failed+=("$name")
  fi
  rm -f "$results" "$hidden.lock"
}

# pair NAME CAUSES RECORD-OPTIONS... -- PROGRAM ARGUMENTS...: the same run plain and with the costs of CAUSES charged.
pair() {
  local name=$1 causes=$2
  shift 2
  record "$name-off" "$@"
  record "$name-emulated" --emulate "$platform:$causes" "$@"
}

model=(--set model.precision=bf16 --set model.architecture=dense --set parallelism.tp=1 --set memory.weights=gpu)
load=(--set load.concurrency=16 --set load.input_len=128 --set load.dataset=random)

server_options() { # EXECUTION READBACK
  local graphs=$1 overlap=true
  [[ $1 != eager ]] || graphs=none
  [[ $1 != graph ]] || graphs=full
  [[ $2 != sync ]] || overlap=false
  options=("${model[@]}" "${load[@]}" --set "model.name=qwen3-0.6b-shape-$layers-layers" --set load.output_len=128
    --set scheduling.cuda_graphs="$graphs" --set scheduling.overlap="$overlap" --set scheduling.readback="$2")
  program=(serve.py --bench --model 0.6b --layers "$layers" --execution "$1" --readback "$2" --host-work-us "$host_work_us"
    --concurrency 16 --input-len 128 --output-len 128)
}

server() {
  local execution readback steps prompts
  for execution in graph piecewise eager; do
    # An eager step has some 250 submissions: fewer steps make a file of the same size.
    steps=300 prompts=48
    [[ $execution != eager ]] || steps=130 prompts=32
    for readback in sync overlap worker; do
      server_options "$execution" "$readback"
      pair "server-$execution-$readback" launch,overlap --steps "$steps" "${options[@]}" \
        -- "${program[@]}" --num-prompts "$prompts"
    done
  done
}

launch() {
  # The published steps; only the launch toll, which is what they measure.
  pair launch-eager launch --steps 120 -- launch_bench.py --mode eager --steps 120
  pair launch-graph launch --steps 300 -- launch_bench.py --mode graph --steps 300
  # Kernels so short that the host alone sets the pace: every toll shows in full.
  pair launch-181 launch --steps 150 -- launch_bench.py --mode eager --steps 150 --kernel-us 1 \
    --extra-submissions 0 --dispatch-us 0
}

nodes() {
  server_options graph overlap
  record server-graph-overlap-nodes --gpu nodes --steps 100 "${options[@]}" -- "${program[@]}" --num-prompts 16
}

vllm() {
  local half=$(($(nproc) / 2)) pin=()
  # Unpinned, the speed of this host-bound load differs by up to half between processes.
  [[ $half -lt 2 ]] || pin=(--pin "$half-$((2 * half - 1)):0-$((half - 1))")
  vllm_pair 8b full full 256
  vllm_pair 0.6b eager none 96
  vllm_pair 0.6b piecewise piecewise 192
}

vllm_pair() { # SHAPE EXECUTION CUDA-GRAPHS OUTPUT-LENGTH; reads `pin` of its caller
  pair "vllm-$1-$2" launch,overlap "${model[@]}" "${load[@]}" --set "model.name=qwen3-$1-shape" --set "load.output_len=$4" \
    --set scheduling.cuda_graphs="$3" \
    -- serve_vllm.py --model-shape "$1" --execution "$2" --concurrency 16 --num-prompts 16 --input-len 128 \
    --output-len "$4" "${pin[@]}"
}

case ${1:-} in
  server | launch | nodes | vllm) "$1" ;;
  all) server; launch; nodes; vllm ;;
  *) usage ;;
esac
"$python" table.py "$OUT" || failed+=(TRACES.md)
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
