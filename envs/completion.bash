# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# Completion of `snakemake` in a folder with this workflow: targets, profiles, keys of --config and what they may be.
#   . envs/completion.bash
# Nothing is started for it: names are those of files, and of the lists below, which `make docs` writes.

_tpcsweep_targets="all cells adaptive dataset report compare export zarr claims page history crate models calibrate recommendations plan help grid status reap import open_questions open_questions_measured terena2005 terena2005_measured published chep2023_fig3 chep2023_fig4 chep2024_fig2 chep2024_fig3 chep2024_fig4 chep2024_fig5 chep2024_fig6 chep2024_fig7 chep2024_fig8 chep2024_across chep2024_buffers nrp2021 usatlas2007 cambridge"
_tpcsweep_keys="xrootd origins cores rtt bandwidth loss queue_limit mtu tcp_buffer congestion_control layer authorization tool copy_mode encryption endpoint tcp_streams file_size source_content streams target probability sweep testbed results source file base new fail_below fail_on scale only again measure notify error"
_tpcsweep_flags="not_steady wide_interval autocorrelated transfers_failed files_missing counters_disagree monitoring_disagrees machine_saturated deployment_broken path_slow disturbed implausible too_short within_files"

# The stems of files: _tpcsweep_stems FOLDER SUFFIX.
_tpcsweep_stems() {
  local file
  for file in "$1"/*"$2"; do
    [[ -e $file ]] && file=${file##*/} && echo "${file%"$2"}"
  done
}

# Folders of results with a dataset.
_tpcsweep_results() {
  local file
  for file in results/*/dataset.nc; do
    [[ -e $file ]] && file=${file%/dataset.nc} && echo "${file##*/}"
  done
}

# What a key of --config may be: _tpcsweep_values KEY.
_tpcsweep_values() {
  case $1 in
  sweep) _tpcsweep_stems config/sweeps .yaml ;;
  testbed) _tpcsweep_stems config/testbeds .yaml ;;
  source) _tpcsweep_stems config/imports .yaml ;;
  base | new) _tpcsweep_results ;;
  again) echo "$_tpcsweep_flags" ;;
  measure) echo true false ;;
  fail_on) echo change slower ;;
  esac
}

_tpcsweep() {
  COMPREPLY=()
  # Elsewhere files alone, as without this.
  [[ -d config/sweeps && -d config/testbeds ]] || return 0
  # Readline parts words at "=" and "@", as COMP_WORDBREAKS says; here a word ends at a space.
  local line=${COMP_LINE:0:COMP_POINT} word option='' each before=''
  word=${line##*[[:space:]]}
  local -a words
  read -ra words <<<"${line%"$word"}"
  for each in "${words[@]}"; do
    case $each in
    --config | -C) option=--config ;;
    --) option='' ;;
    -*) option=$each ;;
    esac
    before=$each
  done
  if [[ $option == --config && $word == *=* ]]; then
    local key=${word%%=*} value=${word#*=} named=''
    # Of several sweeps the last is completed, with those that are not named yet.
    [[ $key == sweep && $value == *,* ]] && named=${value%,*}, value=${value##*,}
    for each in $(compgen -W "$(_tpcsweep_values "$key")" -- "$value"); do
      [[ ,$named == *,"$each",* ]] || COMPREPLY+=("$key=$named$each")
    done
  elif [[ $option == --config && $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -S = -W "$_tpcsweep_keys" -- "$word")
    compopt -o nospace 2>/dev/null
  elif [[ $before == --profile ]]; then
    mapfile -t COMPREPLY < <(compgen -W "k8s" -- "$word")
  elif [[ $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$_tpcsweep_targets" -- "$word")
  fi
  # Readline has what is before the last break already.
  local head=${word%"${word##*["$COMP_WORDBREAKS"]}"}
  COMPREPLY=("${COMPREPLY[@]#"$head"}")
}

complete -o default -F _tpcsweep snakemake
