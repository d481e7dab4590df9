// Jobs on db-scheduler, on DATABASE_URL; called as the other contestants are. Its settings are those of its own
// measurements with two cores for each worker (github.com/kagkarlsson/db-scheduler, docs/performance.md): lock-and-fetch,
// 20 threads, limits of 4 and 20 times as many. Here 100 threads with limits of 2 and 6, its other ones, are no faster.

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.SchedulerName;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

final class DbSchedulerJobs {
    private static final int CHUNK = 1000;
    private static final int CONNECTIONS = 24;
    private static final int THREADS = 20;
    private static final double LOWER = 4.0;
    private static final double UPPER = 20.0;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final String TABLE = """
        CREATE TABLE scheduled_tasks (
            task_name text, task_instance text, task_data bytea, execution_time timestamptz, state text,
            picked boolean NOT NULL, picked_by text, priority smallint, version bigint NOT NULL,
            last_success timestamptz, last_failure timestamptz, consecutive_failures int, last_heartbeat timestamptz,
            PRIMARY KEY (task_name, task_instance)
        );
        CREATE INDEX ON scheduled_tasks (execution_time);
        CREATE INDEX ON scheduled_tasks (last_heartbeat);
        """;
    private static final OneTimeTask<Void> NOOP = Tasks.oneTime("noop").execute((job, context) -> Notes.noteJob());
    private static final OneTimeTask<Double> STAMP =
        Tasks.oneTime("stamp", Double.class).execute((job, context) -> Notes.noteStamp(job.getData()));
    private static final String mine = UUID.randomUUID() + "-";
    private static final AtomicLong numbers = new AtomicLong();

    private DbSchedulerJobs() {}

    public static void main(String[] given) throws Exception {
        try (HikariDataSource source = new HikariDataSource()) {
            source.setJdbcUrl(Notes.address());
            source.setMaximumPoolSize(CONNECTIONS);
            switch (given[0]) {
                case "prepare" -> prepare(source);
                case "work" -> work(source);
                default -> submit(SchedulerClient.Builder.create(source, NOOP, STAMP).build(), given);
            }
        }
    }

    private static void prepare(HikariDataSource source) throws Exception {
        try (Connection connection = source.getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute(TABLE);
        }
    }

    private static void work(HikariDataSource source) throws Exception {
        Scheduler.create(source, NOOP, STAMP)
            .schedulerName(new SchedulerName.Fixed("worker-" + ProcessHandle.current().pid()))
            .threads(THREADS)
            .pollingInterval(POLL)
            .pollUsingLockAndFetch(LOWER, UPPER)
            .build()
            .start();
        new CountDownLatch(1).await();
    }

    private static void submit(SchedulerClient client, String[] given) throws Exception {
        double first = Double.parseDouble(given[1]);
        double second = given.length > 2 ? Double.parseDouble(given[2]) : 0;
        switch (given[0]) {
            case "load" -> {
                for (int left = (int) first; left > 0; left -= CHUNK) {
                    bulk(client, NOOP, null, Math.min(left, CHUNK), Instant.now());
                }
            }
            case "schedule" -> {
                Instant due = Instant.EPOCH.plusNanos((long) (second * 1e6) * 1000);
                for (int left = (int) first; left > 0; left -= CHUNK) {
                    bulk(client, STAMP, second, Math.min(left, CHUNK), due);
                }
            }
            case "feed" -> Notes.feed(() -> bulk(client, NOOP, null, CHUNK, Instant.now()), CHUNK, (long) first, second);
            case "submit" -> {
                int chunk = (int) first;
                Notes.Call call = chunk > 1
                    ? () -> bulk(client, NOOP, null, chunk, Instant.now())
                    : () -> client.scheduleIfNotExists(NOOP.instance(name()), Instant.now());
                Notes.hammer(call, chunk, (int) second, Double.parseDouble(given[3]));
            }
            default -> throw new IllegalArgumentException(given[0]);
        }
    }

    private static <T> void bulk(SchedulerClient client, OneTimeTask<T> task, T data, int count, Instant due) {
        List<TaskInstance<?>> chunk = new ArrayList<>(count);
        for (int number = 0; number < count; number++) {
            chunk.add(task.instance(name(), data));
        }
        client.scheduleBatch(chunk, due);
    }

    private static String name() {
        return mine + numbers.getAndIncrement();
    }
}
