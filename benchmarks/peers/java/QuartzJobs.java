// Jobs on Quartz with its JDBC store, on DATABASE_URL; called as the other contestants are. Its settings are those that
// its configuration reference (github.com/quartz-scheduler/quartz, docs/configuration.adoc) names for very many triggers
// that fire at once: acquired in batches, within the store's lock, for 50 threads. It polls as often as is recommended
// there: by default, each half a minute, it would come late to triggers that another process has stored.

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Date;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SchedulerException;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

public final class QuartzJobs {
    private static final int CHUNK = 1000;
    private static final int THREADS = 50;
    private static final int CONNECTIONS = 24;
    private static final int POLL = 5000;
    private static final String TABLES = "/org/quartz/impl/jdbcjobstore/tables_postgres.sql";
    private static final JobDetail NOOP = JobBuilder.newJob(Noop.class).withIdentity("noop").storeDurably().build();
    private static final JobDetail STAMP = JobBuilder.newJob(Stamp.class).withIdentity("stamp").storeDurably().build();

    private QuartzJobs() {}

    public static final class Noop implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            Notes.noteJob();
        }
    }

    public static final class Stamp implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            Notes.noteStamp(context.getScheduledFireTime().getTime() / 1e3);
        }
    }

    public static void main(String[] given) throws Exception {
        if (given[0].equals("prepare")) {
            prepare();
        }
        Scheduler scheduler = new StdSchedulerFactory(settings()).getScheduler();
        switch (given[0]) {
            case "prepare" -> {
                scheduler.addJob(NOOP, false);
                scheduler.addJob(STAMP, false);
            }
            case "work" -> {
                scheduler.start();
                new CountDownLatch(1).await();
            }
            default -> submit(scheduler, given);
        }
        scheduler.shutdown();
    }

    private static void prepare() throws Exception {
        try (Connection connection = DriverManager.getConnection(Notes.address());
                Statement statement = connection.createStatement();
                var script = QuartzJobs.class.getResourceAsStream(TABLES)) {
            statement.execute(new String(script.readAllBytes(), StandardCharsets.UTF_8));
        }
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "org.quartz.scheduler.instanceName", "benchmark",
            "org.quartz.scheduler.instanceId", "AUTO",
            "org.quartz.scheduler.batchTriggerAcquisitionMaxCount", String.valueOf(THREADS),
            "org.quartz.scheduler.idleWaitTime", String.valueOf(POLL),
            "org.quartz.threadPool.threadCount", String.valueOf(THREADS),
            "org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX",
            "org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate",
            "org.quartz.jobStore.acquireTriggersWithinLock", "true",
            "org.quartz.jobStore.isClustered", "true",
            "org.quartz.jobStore.dataSource", "store"));
        settings.putAll(Map.of(
            "org.quartz.dataSource.store.provider", "hikaricp",
            "org.quartz.dataSource.store.driver", "org.postgresql.Driver",
            "org.quartz.dataSource.store.URL", Notes.address(),
            "org.quartz.dataSource.store.maxConnections", String.valueOf(CONNECTIONS)));
        return settings;
    }

    private static void submit(Scheduler scheduler, String[] given) throws Exception {
        double first = Double.parseDouble(given[1]);
        double second = given.length > 2 ? Double.parseDouble(given[2]) : 0;
        switch (given[0]) {
            case "load" -> {
                for (int left = (int) first; left > 0; left -= CHUNK) {
                    bulk(scheduler, NOOP, Math.min(left, CHUNK), new Date());
                }
            }
            case "schedule" -> {
                for (int left = (int) first; left > 0; left -= CHUNK) {
                    bulk(scheduler, STAMP, Math.min(left, CHUNK), new Date((long) (second * 1000)));
                }
            }
            case "submit" -> {
                int chunk = (int) first;
                Notes.Call call = chunk > 1
                    ? () -> bulk(scheduler, NOOP, chunk, new Date())
                    : () -> scheduler.scheduleJob(trigger(NOOP, new Date()));
                Notes.hammer(call, chunk, (int) second, Double.parseDouble(given[3]));
            }
            default -> throw new IllegalArgumentException(given[0]);
        }
    }

    private static void bulk(Scheduler scheduler, JobDetail job, int count, Date due) throws SchedulerException {
        Set<Trigger> triggers = new HashSet<>();
        for (int number = 0; number < count; number++) {
            triggers.add(trigger(job, due));
        }
        scheduler.scheduleJobs(Map.of(job, triggers), true);
    }

    /** What is late by more than a minute is fired like the rest. */
    private static Trigger trigger(JobDetail job, Date due) {
        return TriggerBuilder.newTrigger()
            .forJob(job)
            .startAt(due)
            .withSchedule(SimpleScheduleBuilder.simpleSchedule().withMisfireHandlingInstructionIgnoreMisfires())
            .build();
    }
}
