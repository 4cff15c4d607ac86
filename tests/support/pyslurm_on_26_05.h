/* Calls of Slurm 25.11 that pyslurm 25.11 makes, in terms of Slurm 26.05, where a job is named by a step id. Given to the
   compiler before any other header: pyslurm itself stays as it was published. */
#ifndef HARVEST_PYSLURM_ON_26_05
#define HARVEST_PYSLURM_ON_26_05
#include <string.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

static inline slurm_step_id_t harvest_job(uint32_t number) {
  slurm_step_id_t named = SLURM_STEP_ID_INITIALIZER;
  named.job_id = number;
  return named;
}

static inline int harvest_job_of(pid_t process, uint32_t *number) {
  slurm_step_id_t named = SLURM_STEP_ID_INITIALIZER;
  int result = slurm_pid2jobid(process, &named);
  *number = named.job_id;
  return result;
}

#define slurm_load_job(answer, job, flags) slurm_load_job(answer, harvest_job(job), flags)
#define slurm_kill_job(job, number, flags) slurm_kill_job(harvest_job(job), number, flags)
#define slurm_suspend(job) slurm_suspend(harvest_job(job))
#define slurm_resume(job) slurm_resume(harvest_job(job))
#define slurm_requeue(job, flags) slurm_requeue(harvest_job(job), flags)
#define slurm_notify_job(job, message) slurm_notify_job(harvest_job(job), message)
#define slurm_get_rem_time(job) slurm_get_rem_time(harvest_job(job))
#define slurm_get_end_time(job, time) slurm_get_end_time(harvest_job(job), time)
#define slurm_job_node_ready(job) slurm_job_node_ready(harvest_job(job))
#define slurm_pid2jobid(process, job) harvest_job_of(process, job)
#define slurm_free_ctl_conf(settings) slurm_free_conf(settings)
#define ESLURM_ERROR_ON_DESC_TO_RECORD_COPY ((slurm_err_t)2007) /* gone; its number was this */
#endif
